"""Tasks that poll ahead: what was polled before is published meanwhile, one transaction after the other."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import ClassVar

import pytest
from tests.unit.connect.connectors import NumberSource, NumberTask

from hayase.connect.contracts import SourceTask
from hayase.connect.model import Polled, SourceOffset
from hayase.connect.publisher import TaskPublisher
from hayase.connect.source_loop import SourceTaskLoop
from hayase.core.errors import LogError
from hayase.log.protocol import Log, OutgoingBatch
from hayase.testing.connect import ConnectorTestDriver

_WAIT_S = 20.0


class AheadTask(NumberTask):
    """Gives numbers, and is polled while they are published."""

    polls_ahead = True
    acknowledged: ClassVar[list[int]] = []
    polled = threading.Semaphore(0)

    def poll(self) -> Polled | None:
        AheadTask.polled.release()
        return super().poll()

    def commit(self) -> None:
        raise AssertionError("commit_polled is called")

    def commit_polled(self, polls: int) -> None:
        AheadTask.acknowledged.append(polls)


class AheadSource(NumberSource):
    """Makes `AheadTask`s."""

    def task_class(self) -> type[SourceTask]:
        return AheadTask


@pytest.fixture
def connector(log: Log) -> ConnectorTestDriver:
    AheadTask.acknowledged.clear()
    AheadTask.polled = threading.Semaphore(0)
    strings = {"key.converter": "StringConverter", "value.converter": "StringConverter"}
    props = {"name": "numbers", "count": "6", "batch": "2", **strings}
    return ConnectorTestDriver({"connector.class": AheadSource, **props}, log=log)


def loop_of(connector: ConnectorTestDriver) -> SourceTaskLoop:
    connector.start()
    (started,) = connector._tasks.values()
    assert isinstance(started.loop, SourceTaskLoop)
    return started.loop


def test_the_task_is_polled_while_its_records_are_published(
    connector: ConnectorTestDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish, seen = TaskPublisher.publish, list[bool]()

    def publish_late(
        self: TaskPublisher, batches: Sequence[OutgoingBatch], offsets: Mapping[bytes, SourceOffset | None]
    ) -> None:
        AheadTask.polled.acquire()  # the poll that has given these records
        seen.append(AheadTask.polled.acquire(timeout=_WAIT_S))  # and the next one
        AheadTask.polled.release()
        publish(self, batches, offsets)

    loop = loop_of(connector)
    monkeypatch.setattr(TaskPublisher, "publish", publish_late)
    while loop.step():
        pass
    assert seen == [True, True, True]
    assert [each.value for each in connector.records("numbers")] == [f"0-{number}".encode() for number in range(6)]
    connector.close()


def test_it_hears_of_each_transaction_how_many_polls_are_durable(connector: ConnectorTestDriver) -> None:
    loop = loop_of(connector)
    while loop.step():
        pass
    assert AheadTask.acknowledged == [1, 2, 3]
    connector.close()


def test_a_stop_waits_for_what_is_being_published(connector: ConnectorTestDriver) -> None:
    loop_of(connector).step()
    connector.stop()
    assert AheadTask.acknowledged == [1]
    assert connector.offsets() == [{"partition": {"part": "0"}, "offset": {"next": 2}}]


def test_nothing_is_published_behind_a_transaction_that_failed(
    connector: ConnectorTestDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = loop_of(connector)
    calls: list[object] = []

    def fail(self: TaskPublisher, *given: object) -> None:
        calls.append(given)
        raise LogError("AUTHENTICATION_FAILED", "no")

    monkeypatch.setattr(TaskPublisher, "publish", fail)
    loop.step()
    with pytest.raises(LogError):
        loop.step()
    connector.kill()
    assert (len(calls), AheadTask.acknowledged) == (1, [])
    assert not connector.log.describe(["numbers"]) or connector.records("numbers") == []


def test_a_task_that_keeps_up_is_polled_when_its_records_are_published(connector: ConnectorTestDriver) -> None:
    loop = loop_of(connector)
    task = loop.task
    task.polls_ahead = False
    with pytest.raises(AssertionError, match="commit_polled is called"):
        task.commit()
    confirmed: list[bool] = []
    task.commit = lambda: confirmed.append(True)  # type: ignore[method-assign]
    loop.step()
    assert (confirmed, AheadTask.acknowledged) == ([True], [])
    assert connector.offsets() == [{"partition": {"part": "0"}, "offset": {"next": 2}}]
    connector.close()
