"""Read models in SQLite: rows that follow events, versions beside each other, tables that others change."""

from __future__ import annotations

import contextlib
import sqlite3
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.patterns.shop import Expired, Paid, Placed, order_aggregate

from hayase.core.config import StreamsConfig
from hayase.core.errors import ConfigError, ProcessingError, StateError, TopologyError
from hayase.core.records import TopicPartition
from hayase.log.config import log_config
from hayase.log.open import open_log
from hayase.log.protocol import OutputBatch
from hayase.patterns import (
    Delete,
    EventPosition,
    PatternsApp,
    ReadModel,
    ReadModelBehindError,
    RecordedEvent,
    SqliteTable,
    Upsert,
)
from hayase.patterns.read_models import registry
from hayase.patterns.read_models.runner import ReadModelRunner, ReadModelState
from hayase.patterns.read_models.verification import verify
from hayase.patterns.recorded_events import event_headers
from hayase.patterns.replies import decode_reply
from hayase.serde import partition_for_key

order = order_aggregate()


@dataclass
class OrderRow:
    order_id: str
    item: str | None
    cents: int | None = 0


def project(recorded: RecordedEvent[Any]) -> object:
    match recorded.event:
        case Placed("poison"):
            raise RuntimeError("poison")
        case Placed("exit"):
            sys.exit(3)
        case Placed(item):
            return OrderRow(recorded.aggregate_id, item)
        case Paid(cents):
            return Upsert(order_id=recorded.aggregate_id, cents=cents)
        case Expired():
            return [Delete(order_id=recorded.aggregate_id)]


class Events:
    """A topic of events, filled by hand."""

    def __init__(self, folder: Path, partitions: int = 2) -> None:
        self.settings = StreamsConfig({"application.id": "orders", "log.dir": str(folder / "topics")})
        self.log = open_log(log_config(self.settings))
        self.log.create_topic("order-events", partitions, {"retention.ms": "-1"})
        self._versions: dict[str, int] = {}
        self._time_ms = 0

    def record(self, key: str, *events: object) -> None:
        writer = self.log.writer()
        for event in events:
            version = self._versions[key] = self._versions.get(key, 0) + 1
            name = type(event).__name__
            self._time_ms += 1
            headers = event_headers(key, version, name, 1, self._time_ms)
            data = order.event_types.encode(name, event)
            writer.append([OutputBatch("order-events", [key.encode()], [data], [self._time_ms], None, [headers])])
        writer.close()

    def position(self, key: str) -> EventPosition:
        partition = partition_for_key(key.encode(), 2)
        where = TopicPartition("order-events", partition)
        topic_id = self.log.describe(["order-events"])["order-events"].topic_id
        return EventPosition("order-events", partition, self.log.end_offsets([where])[where], topic_id)

    def make_topic_again(self) -> None:
        self.log.delete_topic("order-events")
        self.log.create_topic("order-events", 2, {"retention.ms": "-1"})
        self._versions.clear()


@pytest.fixture
def events(tmp_path: Path) -> Iterator[Events]:
    made = Events(tmp_path)
    yield made
    made.log.close()


def model_in(folder: Path, **options: Any) -> ReadModel:
    return ReadModel("orders", order, project, SqliteTable(OrderRow, "order_id", folder / "shop.db"), **options)


@contextlib.contextmanager
def running(model: ReadModel, events: Events) -> Iterator[ReadModelRunner]:
    runner = ReadModelRunner(model, events.settings)
    runner.start()
    try:
        yield runner
    finally:
        runner.close()


def eventually(condition: Callable[[], object]) -> None:
    give_up_at = time.monotonic() + 90
    while not condition():
        assert time.monotonic() < give_up_at, "it did not come about"
        time.sleep(0.01)


def rows(folder: Path, table: str = "orders") -> list[tuple[Any, ...]]:
    with contextlib.closing(sqlite3.connect(folder / "shop.db")) as database:
        return database.execute(f"SELECT * FROM {table} ORDER BY order_id").fetchall()


def fill(model: ReadModel, events: Events) -> None:
    with running(model, events) as runner:
        eventually(lambda: runner.status.state is ReadModelState.RUNNING and runner.status.lag == 0)


def test_rows_follow_the_events(events: Events, tmp_path: Path) -> None:
    events.record("a", Placed("book"), Paid(5))
    events.record("b", Placed("pen"), Expired())
    fill(model_in(tmp_path), events)
    assert rows(tmp_path) == [("a", "book", 5)]


def test_a_reader_waits_for_its_own_writes(events: Events, tmp_path: Path) -> None:
    model = model_in(tmp_path)
    with running(model, events):
        for number in range(3):
            events.record("a", Paid(number))
            model.wait_for(events.position("a"))
            assert rows(tmp_path) == [("a", None, number)]


def test_waiting_ends_with_an_error_where_nothing_fills_the_model(events: Events, tmp_path: Path) -> None:
    events.record("a", Placed("book"))
    with pytest.raises(ReadModelBehindError, match="is not at offset 1 of order-events-"):
        model_in(tmp_path).wait_for(events.position("a"), timedelta(milliseconds=50))


def test_a_position_of_another_topic_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TopologyError, match="reads 'order-events', and the position is one in 'stock-events'"):
        model_in(tmp_path).wait_for(EventPosition("stock-events", 0, 1))
    model_in(tmp_path).wait_for(None)  # of a reply that is not accepted


def test_a_position_in_a_topic_that_was_made_again_is_not_taken_for_one_in_the_rows(
    events: Events, tmp_path: Path
) -> None:
    events.record("a", Placed("book"), Paid(5))
    model = model_in(tmp_path)
    fill(model, events)
    before = events.position("a")
    events.make_topic_again()
    events.record("a", Placed("pen"))
    with pytest.raises(StateError, match=r"POSITION_OF_ANOTHER_TOPIC.*was deleted and made again") as error:
        model.wait_for(events.position("a"))
    assert before.topic_id in error.value.message and events.position("a").topic_id in error.value.message
    model.wait_for(before)

    second = model_in(tmp_path, version=2)
    fill(second, events)
    second.switch(timeout=timedelta(seconds=30))
    second.wait_for(events.position("a"))
    with pytest.raises(StateError, match="POSITION_OF_ANOTHER_TOPIC"):
        second.wait_for(before)


def test_a_position_of_an_earlier_version_without_the_id_of_the_topic_is_waited_for(
    events: Events, tmp_path: Path
) -> None:
    events.record("a", Placed("book"))
    model = model_in(tmp_path)
    fill(model, events)
    reply = decode_reply(
        b'{"status":"accepted","aggregate":"order","aggregate_id":"a","command_id":"1",'
        b'"position":["order-events",%d,1]}' % events.position("a").partition
    )
    assert reply.position is not None and reply.position.topic_id == ""
    model.wait_for(reply.position)


@pytest.mark.long
def test_a_new_version_fills_its_table_beside_the_old_one_until_the_switch(events: Events, tmp_path: Path) -> None:
    events.record("a", Placed("book"), Paid(5))
    first = model_in(tmp_path)
    fill(first, events)
    second = ReadModel(
        "orders",
        order,
        lambda recorded: Upsert(order_id=recorded.aggregate_id, item="new"),
        first.target,
        version=2,
    )
    fill(second, events)
    assert rows(tmp_path) == [("a", "book", 5)]
    assert second.switch() == 1
    assert rows(tmp_path) == [("a", "new", None)]
    assert [(each.version, each.served) for each in first.versions()] == [(1, False), (2, True)]
    second.switch(1)
    assert rows(tmp_path) == [("a", "book", 5)]


def test_a_version_that_is_behind_the_shown_one_is_not_switched_to(events: Events, tmp_path: Path) -> None:
    events.record("a", Placed("book"))
    fill(model_in(tmp_path), events)
    second = model_in(tmp_path, version=2)
    fill(second, events)
    events.record("a", Paid(1))
    fill(model_in(tmp_path), events)
    with pytest.raises(StateError, match="is 1 offsets behind the version that is shown"):
        second.switch(timeout=timedelta(0))


def test_a_version_that_was_never_filled_is_not_switched_to(events: Events, tmp_path: Path) -> None:
    fill(model_in(tmp_path), events)
    with pytest.raises(StateError, match=r"UNKNOWN_VERSION.*has no version 3.*it has 1"):
        model_in(tmp_path).switch(3)


def test_the_shown_version_is_not_dropped(events: Events, tmp_path: Path) -> None:
    model = model_in(tmp_path)
    fill(model, events)
    fill(model_in(tmp_path, version=2), events)
    with pytest.raises(StateError, match="READ_MODEL_SERVED"):
        model.drop(1)
    model.drop(2)
    assert [each.version for each in model.versions()] == [1]


def test_a_column_that_was_removed_stops_the_model_and_is_named(events: Events, tmp_path: Path) -> None:
    events.record("a", Placed("book"))
    fill(model_in(tmp_path), events)
    with contextlib.closing(sqlite3.connect(tmp_path / "shop.db")) as database:
        database.execute("DROP VIEW orders")
        database.execute("ALTER TABLE orders_v1 DROP COLUMN cents")
    with running(model_in(tmp_path), events) as runner:
        eventually(lambda: runner.status.state is ReadModelState.FAILED)
        assert "READ_MODEL_TABLE_CHANGED" in runner.status.reason
        assert "has no column 'cents'" in runner.status.reason
        assert "version=2" in runner.status.reason


def test_a_table_that_is_dropped_while_it_is_filled_stops_the_model(events: Events, tmp_path: Path) -> None:
    with running(model_in(tmp_path), events) as runner:
        eventually(lambda: runner.status.state is ReadModelState.RUNNING)
        with contextlib.closing(sqlite3.connect(tmp_path / "shop.db", timeout=20)) as database:
            database.execute("DROP VIEW orders")
            database.execute("DROP TABLE orders_v1")
        events.record("a", Placed("book"))
        eventually(lambda: runner.status.state is ReadModelState.FAILED)
        assert "has been dropped" in runner.status.reason


@pytest.mark.long
def test_a_locked_database_is_waited_for_and_the_status_says_so(events: Events, tmp_path: Path) -> None:
    fill(model_in(tmp_path), events)
    with contextlib.closing(sqlite3.connect(tmp_path / "shop.db", isolation_level=None)) as database:
        database.execute("BEGIN IMMEDIATE")
        with running(model_in(tmp_path), events) as runner:
            eventually(lambda: runner.status.state is ReadModelState.WAITING)
            assert "another process writes" in runner.status.reason
            database.execute("ROLLBACK")
            eventually(lambda: runner.status.state is ReadModelState.RUNNING)


def test_the_metrics_say_how_far_a_read_model_is_behind_also_while_its_database_is_away_and_when_it_has_failed(
    events: Events, tmp_path: Path
) -> None:
    app = PatternsApp(order, events.settings, read_models=[model_in(tmp_path)])
    runner = app.read_models["orders"]

    def metric(name: str) -> object:
        (value,) = (
            value
            for key, value in app.metrics().items()
            if (key.group, key.name, key.tag("read-model-id")) == ("stream-read-model-metrics", name, "orders")
        )
        return value

    assert (metric("records-lag"), metric("state")) == (-1, "starting")
    events.record("a", Placed("book"))
    runner.start()
    try:
        eventually(lambda: (metric("records-lag"), metric("state")) == (0, "running"))
        with contextlib.closing(sqlite3.connect(tmp_path / "shop.db", isolation_level=None, timeout=30)) as database:
            database.execute("BEGIN IMMEDIATE")
            events.record("a", Paid(5), Paid(6))
            eventually(lambda: (metric("records-lag"), metric("state")) == (2, "waiting"))
            database.execute("ROLLBACK")
        eventually(lambda: (metric("records-lag"), metric("state")) == (0, "running"))
        events.record("b", Placed("poison"))
        eventually(lambda: (metric("records-lag"), metric("state")) == (1, "failed"))
    finally:
        runner.close()


def test_a_projection_that_raises_stops_the_model_with_the_event_named(events: Events, tmp_path: Path) -> None:
    events.record("a", Placed("poison"))
    with running(model_in(tmp_path), events) as runner:
        eventually(lambda: runner.status.state is ReadModelState.FAILED)
        assert "PROJECTION_FAILED" in runner.status.reason
        assert "cannot take Placed: RuntimeError: poison" in runner.status.reason


def test_a_projection_that_wants_to_end_the_process_fails_the_model(events: Events, tmp_path: Path) -> None:
    events.record("a", Placed("exit"))
    with running(model_in(tmp_path), events) as runner:
        eventually(lambda: runner.status.state is ReadModelState.FAILED)
        assert "cannot take Placed: the code wanted to end the process: SystemExit(3)" in runner.status.reason


def test_the_later_of_two_runners_goes_on_and_the_earlier_one_fails(events: Events, tmp_path: Path) -> None:
    with running(model_in(tmp_path), events) as first:
        eventually(lambda: first.status.state is ReadModelState.RUNNING)
        with running(model_in(tmp_path), events) as second:
            eventually(lambda: second.status.state is ReadModelState.RUNNING)
            events.record("a", Placed("book"))
            eventually(lambda: first.status.state is ReadModelState.FAILED)
            assert "SUPERSEDED" in first.status.reason
            eventually(lambda: rows(tmp_path) != [])
    assert rows(tmp_path) == [("a", "book", 0)]


def test_verification_names_a_row_that_another_client_changed(events: Events, tmp_path: Path) -> None:
    events.record("a", Placed("book"))
    model = model_in(tmp_path)
    fill(model, events)
    assert verify(model, events.settings).different == 0
    with contextlib.closing(sqlite3.connect(tmp_path / "shop.db")) as database, database:
        database.execute("UPDATE orders_v1 SET cents = 7")
    result = verify(model, events.settings)
    assert result.different == 1
    assert "'cents': 7" in result.differences[0]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ReadModel("Orders", order, project, SqliteTable(OrderRow, "order_id", "x")), "cannot name a table"),
        (lambda: SqliteTable(OrderRow, "id", "x"), "give one or more of the columns order_id, item, cents"),
        (lambda: SqliteTable(int, "id", "x"), "rows are described by a dataclass"),
        (lambda: ReadModel("o", order, project, SqliteTable(OrderRow, "order_id", "x"), version=0), "from 1 on"),
    ],
)
def test_a_read_model_that_cannot_be_is_refused(make: Callable[[], object], message: str) -> None:
    with pytest.raises(TopologyError, match=f"INVALID_READ_MODEL.*{message}"):
        make()


@pytest.mark.parametrize("given", [7, Upsert(order_id="a", colour="red"), Upsert(item="x"), Delete(item="x")])
def test_what_is_no_row_is_refused(given: object) -> None:
    with pytest.raises(ProcessingError, match="INVALID_ROW"):
        list(SqliteTable(OrderRow, "order_id", "x").shape.changes(given))


EVENTS = st.one_of(
    st.builds(Placed, st.sampled_from(["book", "pen"])), st.builds(Paid, st.integers(0, 9)), st.just(Expired())
)


@pytest.mark.long
@settings(max_examples=8, deadline=None)
@given(st.lists(st.lists(st.tuples(st.sampled_from("abcd"), EVENTS), max_size=6), max_size=4))
def test_rows_are_a_fold_of_the_events_however_they_are_cut(
    tmp_path_factory: pytest.TempPathFactory, parts: list[list[tuple[str, Any]]]
) -> None:
    folder = tmp_path_factory.mktemp("fold")
    events = Events(folder)
    expected: dict[str, list[Any]] = {}
    model = model_in(folder)
    for part in [*parts, []]:
        for key, event in part:
            events.record(key, event)
            match event:
                case Placed(item):
                    expected[key] = [item, 0]
                case Paid(cents):
                    expected.setdefault(key, [None, None])[1] = cents
                case Expired():
                    expected.pop(key, None)
        fill(model, events)
        assert rows(folder) == [(key, *values) for key, values in sorted(expected.items())]
    assert verify(model, events.settings).different == 0
    events.log.close()


def test_an_other_types_of_columns_are_refused() -> None:
    @dataclass
    class Odd:
        id: str
        what: set[int]

    with pytest.raises(TopologyError, match="the column 'what' of Odd"):
        SqliteTable(Odd, "id", "x")


def test_a_table_of_other_types_is_refused(events: Events, tmp_path: Path) -> None:
    fill(model_in(tmp_path), events)

    @dataclass
    class Changed:
        order_id: str
        item: str
        cents: str

    model = ReadModel("orders", order, project, SqliteTable(Changed, "order_id", tmp_path / "shop.db"))
    with model.target.session() as session, pytest.raises(ConfigError, match="'cents' as INTEGER, not as TEXT"):
        registry.check_columns(session, model.target, "orders", 1)


def failed(model: ReadModel, events: Events) -> str:
    with running(model, events) as runner:
        eventually(lambda: runner.status.state is ReadModelState.FAILED)
        return runner.status.reason


@pytest.mark.long
def test_a_log_that_is_older_than_the_table_stops_the_model_instead_of_skipping_events(tmp_path: Path) -> None:
    older, newer = Events(tmp_path / "older"), Events(tmp_path / "newer")
    topic_id = older.log.describe(["order-events"])["order-events"].topic_id
    newer.record("1", Placed("book"), Paid(5))
    fill(model_in(tmp_path), newer)
    with contextlib.closing(sqlite3.connect(tmp_path / "shop.db")) as database:  # as if `older` were a copy of it
        database.execute("UPDATE hayase_offsets SET topic_id = ?", (topic_id,))
        database.commit()
    older.record("1", Placed("pen"))
    assert "READ_MODEL_OF_ANOTHER_TOPIC" in (reason := failed(model_in(tmp_path), older))
    assert "up to offset 2" in reason and "ends at offset 1" in reason and "version=2" in reason
    fill(model_in(tmp_path, version=2), older)
    assert rows(tmp_path, "orders_v2") == [("1", "pen", 0)]
    older.log.close()
    newer.log.close()


@pytest.mark.long
def test_a_topic_that_was_made_again_stops_the_model_instead_of_mixing_rows(events: Events, tmp_path: Path) -> None:
    events.record("1", Placed("book"))
    fill(model_in(tmp_path), events)
    events.log.delete_topic("order-events")
    events.log.create_topic("order-events", 2, {"retention.ms": "-1"})
    assert "was deleted and made again" in failed(model_in(tmp_path), events)
    with model_in(tmp_path).target.session() as session:
        registry.prepare(session, model_in(tmp_path).target, "orders", 2)
    with pytest.raises(StateError, match="READ_MODEL_NOT_FILLED"):
        model_in(tmp_path, version=2).switch(timeout=timedelta(0))
    events.record("2", Placed("pen"))
    fill(model_in(tmp_path, version=2), events)
    assert model_in(tmp_path, version=2).switch(timeout=timedelta(0)) == 1
    assert rows(tmp_path) == [("2", "pen", 0)]
