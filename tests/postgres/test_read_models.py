"""Read models in PostgreSQL: types, switching, a server that is away, and processes that are killed while they fill."""

from __future__ import annotations

import datetime as dt
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from subprocess import STDOUT
from typing import Any
from uuid import UUID

import pytest
from tests.unit.patterns import read_model_program
from tests.unit.patterns.shop import Expired, Paid, Placed
from tests.unit.patterns.test_read_models import Events, eventually, fill, running

from hayase.core.failpoints import SINK_NAMES, VARIABLE
from hayase.patterns import Delete, PostgresTable, ReadModel, RecordedEvent, SqliteTable, Upsert
from hayase.patterns.read_models.runner import ReadModelState
from hayase.patterns.read_models.verification import verify
from hayase.testing.postgres_server import PASSWORD, USER, PostgresServer

pytestmark = pytest.mark.postgres


@dataclass
class WideRow:
    order_id: str
    item: str | None = None
    paid: bool | None = None
    cents: int | None = None
    rate: float | None = None
    amount: Decimal | None = None
    data: bytes | None = None
    day: dt.date | None = None
    time: dt.datetime | None = None
    ref: UUID | None = None
    tags: list[str] | None = None
    more: dict[str, Any] | None = None


def wide(recorded: RecordedEvent[Any]) -> object:
    if isinstance(recorded.event, Expired):
        return Delete(order_id=recorded.aggregate_id)
    if isinstance(recorded.event, Paid):
        return Upsert(order_id=recorded.aggregate_id, cents=recorded.event.cents, paid=True)
    return WideRow(
        recorded.aggregate_id,
        recorded.event.item,
        False,
        0,
        1.5,
        Decimal("12.50"),
        b"\x00\x01",
        dt.date(2026, 11, 25),
        dt.datetime(2026, 11, 25, 8, tzinfo=dt.UTC),
        UUID(int=7),
        ["a", 'b"'],
        {"x": [1, None]},
    )


@pytest.fixture
def events(tmp_path: Path) -> Iterator[Events]:
    made = Events(tmp_path)
    yield made
    made.log.close()


def table(server: PostgresServer, database: str, row: type = WideRow) -> PostgresTable:
    url = f"postgresql://{server.host}:{server.port}/{database}"
    return PostgresTable(row, "order_id", url, username=USER, password=PASSWORD)


def model_in(
    server: PostgresServer, database: str, project: Callable[[Any], object] = wide, version: int = 1
) -> ReadModel:
    return ReadModel("orders", read_model_program.order, project, table(server, database), version=version)


def test_all_types_of_columns_come_back_as_they_were(
    events: Events, postgres_server: PostgresServer, database: str
) -> None:
    events.record("a", Placed("book"), Paid(5))
    events.record("b", Placed("pen"), Expired())
    model = model_in(postgres_server, database)
    fill(model, events)
    with postgres_server.connect(database) as connection:
        rows = connection.execute("SELECT item, paid, cents, amount, data, ref, tags, more FROM orders").fetchall()
        assert rows == [("book", True, 5, Decimal("12.50"), b"\x00\x01", UUID(int=7), ["a", 'b"'], {"x": [1, None]})]
    assert verify(model, events.settings).different == 0
    with postgres_server.connect(database) as connection:
        connection.execute("UPDATE orders_v1 SET tags = '[]'")
    assert verify(model, events.settings).different == 1


def test_a_switch_keeps_who_may_read_the_view(events: Events, postgres_server: PostgresServer, database: str) -> None:
    @dataclass
    class Narrow:
        order_id: str

    events.record("a", Placed("book"))
    fill(model_in(postgres_server, database), events)
    with postgres_server.connect(database) as connection:
        connection.execute("DROP ROLE IF EXISTS reporter")
        connection.execute("CREATE ROLE reporter")
        connection.execute("GRANT SELECT ON orders TO reporter")
        target = table(postgres_server, database, Narrow)
        project = lambda recorded: Narrow(recorded.aggregate_id)  # noqa: E731
        narrow = ReadModel("orders", read_model_program.order, project, target, version=2)
        fill(narrow, events)
        assert narrow.switch() == 1
        assert connection.execute("SELECT * FROM orders").fetchall() == [("a",)]
        assert connection.execute("SELECT has_table_privilege('reporter', 'orders', 'SELECT')").fetchone() == (True,)
        assert narrow.switch(1) == 2
        connection.execute("DROP OWNED BY reporter")
        connection.execute("DROP ROLE reporter")


def test_a_reader_never_sees_an_empty_view_while_versions_are_switched(
    events: Events, postgres_server: PostgresServer, database: str
) -> None:
    import threading

    events.record("a", Placed("book"))
    models = [model_in(postgres_server, database, version=version) for version in (1, 2)]
    for model in models:
        fill(model, events)
    stop, seen = threading.Event(), set[Any]()

    def look() -> None:
        with postgres_server.connect(database) as connection:
            while not stop.is_set():
                seen.add(connection.execute("SELECT count(*) FROM orders").fetchone())

    thread = threading.Thread(target=look)
    thread.start()
    for _ in range(10):
        models[1].switch()
        models[0].switch()
    stop.set()
    thread.join()
    assert seen == {(1,)}


def test_a_server_that_is_away_is_waited_for(events: Events, tmp_path: Path) -> None:
    with PostgresServer() as server:
        with server.connect() as connection:
            connection.execute("CREATE DATABASE shop")
        model = model_in(server, "shop")
        events.record("a", Placed("book"))
        with running(model, events) as runner:
            eventually(lambda: runner.status.state is ReadModelState.RUNNING and runner.status.lag == 0)
            server.kill()
            events.record("a", Paid(5))
            eventually(lambda: runner.status.state is ReadModelState.WAITING)
            assert "DATABASE_UNREACHABLE" in runner.status.reason
            server.start()
            eventually(lambda: runner.status.state is ReadModelState.RUNNING and runner.status.lag == 0)
        assert verify(model, events.settings).different == 0


MANY = [pytest.mark.slow, pytest.mark.timeout(1_800)]
"""Each kill is a process that starts, which takes long where other tests run."""


class Filler:
    """A process that fills a model, and is killed; another goes on."""

    def __init__(self, target: str, events: Events, folder: Path) -> None:
        self._events, self._folder, self._kills = events, folder, 0
        program = f"{read_model_program.__file__}:topology"
        where = ["-c", "application.id=orders", "-c", f"log.dir={folder / 'topics'}"]
        hayase = "from hayase.cli.main import main; main()"
        self._command = [sys.executable, "-c", hayase, "read-models", "run", program, *where]
        paths = os.pathsep.join([os.environ.get("PYTHONPATH", ""), str(Path(__file__).parents[2])])
        self._environment = {**os.environ, "READ_MODEL_TARGET": target, "PYTHONPATH": paths}
        table = PostgresTable if target.startswith("postgresql:") else SqliteTable
        row = read_model_program.OrderRow
        project = read_model_program.project
        self.model = ReadModel("orders", read_model_program.order, project, table(row, "order_id", target))

    def kill_soon(self, after_s: float) -> None:
        """Kill a process some time after it has begun."""
        process = subprocess.Popen(self._command, env=self._environment, stdout=subprocess.PIPE, stderr=STDOUT)
        try:
            assert process.stdout is not None
            process.stdout.readline()  # it has begun
            time.sleep(after_s)
            assert process.poll() is None, process.stdout.read()
        finally:
            process.kill()
            process.wait()

    def kill_at(self, failpoint: str) -> None:
        """Have a process kill itself at a step."""
        self._kills += 1
        armed = [{"name": failpoint, "action": "kill_worker", "token": str(self._folder / f"token-{self._kills}")}]
        environment = {**self._environment, VARIABLE: json.dumps(armed)}
        ended = subprocess.run(
            self._command, check=False, env=environment, stdout=subprocess.PIPE, stderr=STDOUT, timeout=200
        )
        assert ended.returncode == -signal.SIGKILL, (failpoint, ended.stdout)

    def expect_fold(self, records: int) -> None:
        """Fill the rest in this process; the rows are what the events come to."""
        fill(self.model, self._events)
        result = verify(self.model, self._events.settings)
        assert (result.different, result.records) == (0, records)


def record_some(events: Events, chosen: random.Random, count: int) -> None:
    for _ in range(count):
        event = chosen.choice([Placed(f"{chosen.random()}"), Paid(chosen.randint(0, 99)), Expired()])
        events.record(str(chosen.randint(1, 30)), event)


@pytest.fixture
def url(postgres_server: PostgresServer, database: str) -> str:
    return f"postgresql://{USER}:{PASSWORD}@{postgres_server.host}:{postgres_server.port}/{database}"


@pytest.mark.parametrize("kills", [3, pytest.param(40, marks=MANY)])
def test_rows_are_a_fold_of_the_events_after_kills_at_any_moment(
    kills: int, events: Events, url: str, tmp_path: Path
) -> None:
    chosen, filler = random.Random(kills), Filler(url, events, tmp_path)
    for _ in range(kills):
        record_some(events, chosen, 200)
        filler.kill_soon(chosen.random() * 0.5)
    filler.expect_fold(200 * kills)


@pytest.mark.parametrize("kind", ["postgres", "sqlite"])
@pytest.mark.parametrize("rounds", [1, pytest.param(12, marks=MANY)])
def test_rows_are_a_fold_of_the_events_after_a_kill_at_every_step(
    rounds: int, kind: str, events: Events, url: str, tmp_path: Path
) -> None:
    target = url if kind == "postgres" else str(tmp_path / "rows.db")
    chosen, filler = random.Random(rounds), Filler(target, events, tmp_path)
    for _ in range(rounds):
        for failpoint in chosen.sample(SINK_NAMES, len(SINK_NAMES)):
            record_some(events, chosen, 50)
            filler.kill_at(failpoint)
    filler.expect_fold(50 * rounds * len(SINK_NAMES))
