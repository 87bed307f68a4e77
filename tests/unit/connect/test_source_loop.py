"""Source tasks: every record once, whatever happens between poll and commit."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.connect.connectors import NumberSource, NumberTask, PairSource, PairTask

from hayase.connect.contracts import SourceTask
from hayase.connect.exceptions import ConnectError, DataError
from hayase.connect.generations import Generations, SupersededError
from hayase.connect.herder.generation_plan import plan_task_restart
from hayase.connect.model import Polled, SourceRecord
from hayase.core.errors import ConfigError, HayaseError
from hayase.log.protocol import Log, TopicInfo
from hayase.testing.connect import ConnectorTestDriver

STRINGS = {"key.converter": "StringConverter", "value.converter": "StringConverter"}


def driver(log: Log, cls: type = NumberSource, **props: str) -> ConnectorTestDriver:
    given = {"connector.class": cls, "name": "numbers", "count": "10", **STRINGS}
    return ConnectorTestDriver({**given, **{key.replace("_", "."): value for key, value in props.items()}}, log=log)


def values(connector: ConnectorTestDriver) -> list[bytes | None]:
    return [record.value for record in connector.records("numbers")]


def numbers(*wanted: int, part: int = 0) -> list[bytes]:
    return [f"{part}-{number}".encode() for number in wanted]


def test_records_and_their_offset_are_published(log: Log) -> None:
    with driver(log) as connector:
        connector.run_to_end()
        assert values(connector) == numbers(*range(10))
        assert connector.offsets() == [{"partition": {"part": "0"}, "offset": {"next": 10}}]


def test_the_source_is_acknowledged_after_each_transaction(log: Log) -> None:
    with driver(log, batch="5") as connector:
        connector.run_to_end()
    assert NumberTask.committed == ["0:5", "0:10"]


def test_a_task_that_was_killed_goes_on_behind_what_was_published(log: Log) -> None:
    with driver(log) as connector:
        connector.step()
        connector.kill()
        connector.run_to_end()
        assert values(connector) == numbers(*range(10))


def test_a_task_of_an_earlier_generation_publishes_nothing(log: Log) -> None:
    first = driver(log)
    first.step()
    second = driver(log)
    second.start()
    with pytest.raises(SupersededError):
        first.step()
    second.run_to_end()
    assert values(second) == numbers(*range(10))


def test_a_task_is_fenced_even_if_its_source_partition_goes_to_another_task(log: Log) -> None:
    two = driver(log, parts="2", tasks_max="2", batch="3")
    two.step()
    one = driver(log, parts="2", tasks_max="1", batch="3")
    one.start()
    for started in two._tasks.values():
        with pytest.raises(SupersededError):
            started.loop.step()
    one.run_to_end()
    assert sorted(map(bytes, filter(None, values(one)))) == sorted(numbers(*range(10)) + numbers(*range(10), part=1))


def test_task_ids_that_are_not_used_any_more_are_fenced_as_well(log: Log) -> None:
    with driver(log, parts="3", tasks_max="3") as connector:
        connector.start()
        generations = Generations(log, "connect-cluster")
        generations.begin("numbers", range(1))
        assert len({marker.epoch for marker in generations.markers("numbers").values()}) == 1
        assert generations.markers("numbers").keys() == {0, 1, 2}


def test_one_task_is_restarted_while_the_others_go_on(log: Log) -> None:
    with driver(log, parts="2", tasks_max="2") as connector:
        connector.step()
        spec = connector.specs[0]
        plan_task_restart(connector.environment, spec)
        with pytest.raises(SupersededError):
            connector._tasks[0].loop.step()
        assert connector._tasks[1].loop.step()


def test_two_workers_that_begin_a_generation_get_different_ones(log: Log) -> None:
    generations = Generations(log, "connect-cluster")
    assert [generations.begin("numbers", range(2)) for _ in range(3)] == [1, 2, 3]


def test_a_connector_that_was_deleted_and_made_again_has_a_later_generation(log: Log) -> None:
    first = driver(log)
    first.step()
    Generations(log, "connect-cluster").begin("numbers", ())
    with pytest.raises(SupersededError):
        first.step()


def test_an_offsets_topic_that_lacks_what_was_published_is_refused(log: Log) -> None:
    with driver(log) as connector:
        connector.step()
        connector.stop()
        log.delete_topic("connect-offsets")
        with pytest.raises(HayaseError) as error:
            connector.start()
    assert error.value.condition == "OFFSETS_BEHIND"


def test_a_poll_that_may_succeed_later_is_repeated(log: Log) -> None:
    NumberTask.fail_polls = 2
    with driver(log) as connector:
        connector.run_to_end()
        assert values(connector) == numbers(*range(10))


def test_the_connector_says_where_transactions_end(log: Log) -> None:
    with driver(log, PairSource, count="5", batch="3", transaction_boundary="connector") as connector:
        connector.step()
        assert values(connector) == numbers(0, 1)
        connector.step()
        assert values(connector) == numbers(0, 1, 2, 3)
        connector.stop()
        assert values(connector) == numbers(0, 1, 2, 3)


def test_a_transaction_that_the_connector_aborts_is_dropped_and_not_polled_again(log: Log) -> None:
    with driver(log, PairSource, batch="10", transaction_boundary="connector") as connector:
        connector.run_to_end()
        assert values(connector) == numbers(0, 1, 2, 3, 4, 5, 8, 9)
        assert PairTask.dropped == ["0-6", "0-7"]


def test_transactions_end_by_time(log: Log) -> None:
    interval = {"transaction_boundary": "interval", "transaction_boundary_interval_ms": "1000000"}
    with driver(log, **interval) as connector:
        connector.run_to_end()
        assert values(connector) == []
        connector.stop()
        assert values(connector) == numbers(*range(10))


def test_what_does_not_fit_in_memory_waits_in_a_file(log: Log) -> None:
    with driver(log, PairSource, batch="10", count="6", transaction_boundary="connector") as connector:
        connector.start()
        connector._tasks[0].loop._buffer_bytes = 1  # type: ignore[attr-defined] # of a source's loop
        connector.step()
        assert values(connector) == numbers(*range(6))


def test_a_transform_that_drops_a_record_lets_its_offset_pass(log: Log) -> None:
    dropping = {"transforms": "drop", "transforms_drop_type": "Filter"}
    with driver(log, **dropping) as connector:
        connector.run_to_end()
        assert values(connector) == []
        assert connector.offsets() == [{"partition": {"part": "0"}, "offset": {"next": 10}}]
        assert connector.metrics()["source-record-active-count"] == 0


def test_a_topic_that_was_deleted_is_made_again(log: Log) -> None:
    with driver(log) as connector:
        connector.step()
        log.delete_topic("numbers")
        connector.step()
        assert values(connector) == numbers(2, 3)


@pytest.mark.parametrize(("factor", "replicas"), [("-1", None), ("2", 2)])
def test_topics_are_made_as_the_connector_says(
    log: Log, monkeypatch: pytest.MonkeyPatch, factor: str, replicas: int | None
) -> None:
    creation = {"topic.creation.default.partitions": "3", "topic.creation.default.replication.factor": factor}
    props = {"connector.class": NumberSource, "count": "1", **creation, **STRINGS}
    asked: dict[str, object] = {}
    create = log.create_topic

    def noted(name: str, *given: Any, **more: Any) -> TopicInfo:
        asked[name] = more.get("replicas")
        return create(name, *given, **more)

    monkeypatch.setattr(log, "create_topic", noted)
    with ConnectorTestDriver({**props, "topic.creation.default.cleanup.policy": "compact"}, log=log) as connector:
        connector.run_to_end()
    info = log.describe(["numbers"])["numbers"]
    assert (info.partitions, info.config["cleanup.policy"]) == (3, "compact")
    assert asked["numbers"] == replicas


@pytest.mark.parametrize("exact", ["no", "unknown"])
def test_exactly_once_is_refused_where_the_connector_does_not_promise_it(log: Log, exact: str) -> None:
    with pytest.raises(ConfigError, match="exactly-once"):
        driver(log, exact=exact, exactly_once_support="required")


def test_a_record_that_is_too_large_for_its_topic_is_left_out_if_that_is_tolerated(log: Log) -> None:
    log.create_topic("numbers", 1, {"max.message.bytes": "103"})
    with driver(log, count="11") as connector, pytest.raises(HayaseError, match="Tolerance exceeded"):
        connector.run_to_end()
    with driver(log, count="11", errors_tolerance="all") as connector:
        connector.run_to_end()
        assert values(connector) == []
        assert connector.metrics()["total-records-skipped"] == 11
        assert connector.offsets() == [{"partition": {"part": "0"}, "offset": {"next": 11}}]


class PickySource(NumberSource):
    """Takes even numbers only."""

    def task_class(self) -> type[SourceTask]:
        return PickyTask


class PickyTask(NumberTask):
    def poll(self) -> Polled | None:
        kept = []
        for record in super().poll() or ():
            assert isinstance(record, SourceRecord)
            if int(str(record.value)[-1]) % 2:
                self.context.report(record, DataError("ODD", "an odd number"))
            else:
                kept.append(record)
        return kept


def test_what_a_task_cannot_make_a_record_of_is_left_out_and_counted(
    log: Log, caplog: pytest.LogCaptureFixture
) -> None:
    with driver(log, PickySource, errors_tolerance="all", errors_log_enable="true") as connector:
        connector.run_to_end()
        assert values(connector) == numbers(0, 2, 4, 6, 8)
        metrics = connector.metrics()
    assert (metrics["total-record-failures"], metrics["total-records-skipped"]) == (5, 5)
    assert caplog.text.count("an odd number") >= 5


def test_what_a_task_cannot_make_a_record_of_fails_it_where_none_is_left_out(log: Log) -> None:
    with driver(log, PickySource) as connector, pytest.raises(ConnectError, match="an odd number") as caught:
        connector.run_to_end()
    assert caught.value.condition == "TOLERANCE_EXCEEDED"
