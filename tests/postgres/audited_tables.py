"""Tables whose triggers note each change, writers of random transactions, and whether events are what was noted."""

from __future__ import annotations

import datetime as dt
import json
import random
import threading
import time
from collections import defaultdict
from collections.abc import Iterable
from decimal import Decimal
from typing import Any, Protocol

import psycopg

from hayase.testing.postgres_server import PostgresServer

UNAVAILABLE = "__debezium_unavailable_value"
TABLES = """
CREATE TABLE numbers (id int PRIMARY KEY, v int, big text);
CREATE TABLE texts (id text PRIMARY KEY, v int, big text);
CREATE TABLE pairs (a int, b text, v int, big text, PRIMARY KEY (a, b));
CREATE TABLE days (id date PRIMARY KEY, v int, big text);
CREATE TABLE audit (seq bigserial PRIMARY KEY, tbl text, op text, old jsonb, new jsonb);
CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN INSERT INTO audit (tbl, op, old, new) VALUES (TG_TABLE_NAME, TG_OP, to_jsonb(OLD), to_jsonb(NEW)); RETURN NULL; END $$;
"""  # noqa: E501 - SQL
KEYS = {"numbers": ("id",), "texts": ("id",), "pairs": ("a", "b"), "days": ("id",)}
SPACE = 60
BIG = "(SELECT string_agg(md5(random()::text), '') FROM generate_series(1, 120))"


def key_values(table: str, number: int) -> list[str]:
    return {
        "numbers": [f"{number}"],
        "texts": [f"'{'äzA9_'[number % 5]}{number}'"],
        "pairs": [f"{number // 7}", f"'k{number % 7}'"],
        "days": [f"'2024-01-01'::date + {number}"],
    }[table]


class Writer(threading.Thread):
    """Random transactions, with savepoints and changed keys."""

    def __init__(
        self, server: PostgresServer, database: str, seed: int, stop: threading.Event, *, pause_s: float = 0.001
    ) -> None:
        super().__init__()
        self._pause_s = pause_s
        self.server, self.database, self.random, self.stop = server, database, random.Random(seed), stop
        self.transactions = 0

    def run(self) -> None:
        while not self.stop.is_set():
            try:
                with psycopg.connect(self.server.dsn(self.database)) as connection:
                    while not self.stop.is_set():
                        self.transaction(connection)
            except (psycopg.Error, psycopg.Rollback):  # the server was killed, perhaps inside of a savepoint
                time.sleep(0.05)

    def transaction(self, connection: Any) -> None:
        try:
            for _ in range(self.random.choice((1, 1, 2, 5))):
                if self.random.random() < 0.2:
                    with connection.transaction() as savepoint:
                        self.change(connection)
                        if self.random.random() < 0.5:
                            raise psycopg.Rollback(savepoint)
                else:
                    self.change(connection)
            connection.rollback() if self.random.random() < 0.1 else connection.commit()
            self.transactions += 1
        except (psycopg.errors.UniqueViolation, psycopg.errors.DeadlockDetected):
            connection.rollback()
        time.sleep(self._pause_s)

    def change(self, connection: Any) -> None:
        table = self.random.choice(list(KEYS))
        columns, key = KEYS[table], key_values(table, self.random.randrange(SPACE))
        where = " AND ".join(f"{column} = {value}" for column, value in zip(columns, key, strict=True))
        what = self.random.random()
        v = self.random.randrange(10**6)
        if what < 0.35:
            names = ", ".join((*columns, "v", "big"))
            connection.execute(
                f"INSERT INTO {table} ({names}) VALUES ({', '.join(key)}, {v}, {BIG}) ON CONFLICT DO NOTHING"
            )
        elif what < 0.7:
            connection.execute(f"UPDATE {table} SET v = {v} WHERE {where}")
        elif what < 0.8:
            other = key_values(table, self.random.randrange(SPACE))
            moved = ", ".join(f"{column} = {value}" for column, value in zip(columns, other, strict=True))
            connection.execute(f"UPDATE {table} SET {moved}, v = {v} WHERE {where}")
        else:
            connection.execute(f"DELETE FROM {table} WHERE {where}")


def make_tables(server: PostgresServer, database: str) -> None:
    """The tables with their triggers, each with some rows."""
    with server.connect(database) as connection:
        connection.execute(TABLES)
        for table, columns in KEYS.items():
            connection.execute(
                f"CREATE TRIGGER note AFTER INSERT OR UPDATE OR DELETE ON {table} FOR EACH ROW EXECUTE FUNCTION note()"
            )
            for number in range(0, SPACE, 2):
                names, key = ", ".join((*columns, "v", "big")), ", ".join(key_values(table, number))
                connection.execute(f"INSERT INTO {table} ({names}) VALUES ({key}, 0, {BIG})")


class Event(Protocol):
    """A record of a topic of events."""

    @property
    def topic(self) -> str: ...
    @property
    def key(self) -> object: ...
    @property
    def value(self) -> object: ...


def noted(server: PostgresServer, database: str) -> dict[tuple[Any, ...], list[tuple[str, Any]]]:
    """Changes of each key in order: what it was changed to, or None."""
    changes: dict[tuple[Any, ...], list[tuple[str, Any]]] = defaultdict(list)
    with server.connect(database) as connection:
        for table, op, old, new in connection.execute("SELECT tbl, op, old, new FROM audit ORDER BY seq"):
            old_key = old and (table, *(str(old[column]) for column in KEYS[table]))
            new_key = new and (table, *(str(new[column]) for column in KEYS[table]))
            if op == "UPDATE" and old_key == new_key:
                changes[new_key].append(("u", new))
                continue
            if old_key:
                changes[old_key].append(("d", None))
            if new_key:
                changes[new_key].append(("c", new))
    return changes


def captured(records: Iterable[Event]) -> dict[tuple[Any, ...], list[tuple[str, Any]]]:
    changes: dict[tuple[Any, ...], list[tuple[str, Any]]] = defaultdict(list)
    for record in records:
        value, key = record.value, record.key
        if not isinstance(value, dict):
            continue
        assert isinstance(key, dict)
        table = record.topic.rpartition(".")[2]
        row = value["after"] and dict(value["after"])
        if table == "days":
            key = {"id": day(key["id"])}
            if row:
                row["id"] = day(row["id"])
        changes[(table, *(str(each) for each in key.values()))].append((value["op"], row))
    return changes


def day(days: int) -> str:
    return (dt.date(1970, 1, 1) + dt.timedelta(days=days)).isoformat()


def same(left: Any, right: Any) -> bool:
    if left is None or right is None:
        return left is right
    return all((name == "big" and right[name] == UNAVAILABLE) or left[name] == right[name] for name in left)


def fits(history: list[tuple[str, Any]], events: list[tuple[str, Any]]) -> bool:
    """Whether the events are the end of the history, behind a row that was read at that point of it."""
    reads = [row for op, row in events if op == "r"]
    changes = [event for event in events if event[0] != "r"]
    if len(reads) > 1 or (reads and events[0][0] != "r") or len(changes) > len(history):
        return False
    begin = len(history) - len(changes)
    state = history[begin - 1][1] if begin else None
    if not same(state, reads[0] if reads else None):
        return False
    return all(
        op == seen and same(row, seen_row) for (op, row), (seen, seen_row) in zip(history[begin:], changes, strict=True)
    )


def check(server: PostgresServer, database: str, records: Iterable[Event]) -> int:
    """Whether the events are what was noted, key by key and in order; how many there are."""
    histories, events = noted(server, database), captured(records)
    assert not events.keys() - histories.keys()
    wrong = {
        key: (histories[key], events.get(key, [])) for key in histories if not fits(histories[key], events.get(key, []))
    }
    shown = json.dumps(
        [
            [key, [(op, row and row["v"]) for op, row in a], [(op, row and row["v"]) for op, row in b]]
            for key, (a, b) in list(wrong.items())[:3]
        ],
        default=lambda each: float(each) if isinstance(each, Decimal) else str(each),
    )
    assert not wrong, f"{len(wrong)} of {len(histories)} keys: {shown}"
    return sum(map(len, events.values()))
