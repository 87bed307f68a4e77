"""Read models in PostgreSQL: types, switching, a server that is away, and processes that are killed while they fill."""

from __future__ import annotations

import datetime as dt
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from tests.unit.patterns import read_model_program
from tests.unit.patterns.shop import Expired, Paid, Placed
from tests.unit.patterns.test_read_models import Events, eventually, fill, running

from hayase.patterns import Delete, PostgresTable, ReadModel, RecordedEvent, Upsert
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


@pytest.mark.parametrize("kills", [3, pytest.param(40, marks=pytest.mark.slow)])
def test_rows_are_a_fold_of_the_events_after_kills(
    kills: int, events: Events, postgres_server: PostgresServer, database: str, tmp_path: Path
) -> None:
    """A process that fills the model is killed at any moment, and another goes on."""
    chosen = random.Random(kills)
    url = f"postgresql://{USER}:{PASSWORD}@{postgres_server.host}:{postgres_server.port}/{database}"
    program = f"{read_model_program.__file__}:topology"
    where = ["-c", "application.id=orders", "-c", f"log.dir={tmp_path / 'topics'}"]
    hayase = "from hayase.cli.main import main; main()"
    command = [sys.executable, "-c", hayase, "read-models", "run", program, *where]
    environment = {
        **os.environ,
        "READ_MODEL_TARGET": url,
        "PYTHONPATH": os.pathsep.join([os.environ.get("PYTHONPATH", ""), str(Path(__file__).parents[2])]),
    }
    model = ReadModel(
        "orders",
        read_model_program.order,
        read_model_program.project,
        PostgresTable(read_model_program.OrderRow, "order_id", url),
    )
    for number in range(kills):
        for _ in range(200):
            key = str(chosen.randint(1, 30))
            events.record(key, chosen.choice([Placed(f"{number}"), Paid(chosen.randint(0, 99)), Expired()]))
        process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        try:
            assert process.stdout is not None
            process.stdout.readline()  # it has begun
            time.sleep(chosen.random() * 0.5)
            assert process.poll() is None, process.stdout.read()
        finally:
            process.kill()
            process.wait()
    fill(model, events)
    result = verify(model, events.settings)
    assert (result.different, result.records) == (0, 200 * kills)
