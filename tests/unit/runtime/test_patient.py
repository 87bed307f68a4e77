"""Brokers that are away are waited for where a task asks them, not by failing the task."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from hayase.core.errors import LogError
from hayase.core.patience import Patience
from hayase.core.records import TopicPartition
from hayase.log.protocol import Marker, OutgoingBatch, RecordBatch
from hayase.runtime.wire.driver_control import DriverControl
from hayase.runtime.wire.patient import PatientReader, PatientWriter, patience_of, patiently
from hayase.runtime.wire.planner_control import PlannerControl

WHERE = TopicPartition("in", 0)
AWAY = LogError("BROKER_UNAVAILABLE", "no answer")


class Outage:
    """Time that passes while a caller waits; brokers are away until some point of it."""

    def __init__(self, until_s: float) -> None:
        self.now = 0.0
        self.until_s = until_s
        self.said: list[str] = []
        self.patience = Patience(
            300.0, self.said.append, monotonic=lambda: self.now, sleep=self._sleep, chance=lambda: 1.0
        )

    def _sleep(self, seconds: float) -> None:
        self.now += seconds

    def check(self) -> None:
        """As every request does."""
        if self.now < self.until_s:
            raise AWAY


class Broker:
    """Gives one record a batch, and goes away in the middle of a range."""

    def __init__(self, outage: Outage, away_at: int = -1) -> None:
        self.outage = outage
        self.away_at = away_at
        self.written: list[Sequence[OutgoingBatch]] = []

    def fetch(self, partition: TopicPartition, start: int, end: int) -> Iterator[RecordBatch]:
        for offset in range(start, end):
            if offset == self.away_at:
                self.outage.check()
            one = np.array([offset], np.int64)
            yield RecordBatch(partition.topic, partition.partition, one, one, [None], [b"%d" % offset], None)

    def append(self, batches: Sequence[OutgoingBatch]) -> None:
        self.outage.check()
        self.written.append(batches)

    def publish_epoch(
        self,
        application_id: str,
        bundle: str,
        marker: Marker,
        batches: Sequence[OutgoingBatch],
        *,
        plan_position: int | None = None,
        is_closed: Callable[[], bool] | None = None,
    ) -> bool:
        self.append(batches)
        return True

    def close(self) -> None:
        return


def test_a_reader_goes_on_behind_the_last_batch_after_five_minutes() -> None:
    outage = Outage(300)
    reader = PatientReader(Broker(outage, away_at=3), outage.patience)
    found = [int(batch.offsets[0]) for batch in reader.fetch(WHERE, 0, 6)]
    assert found == [0, 1, 2, 3, 4, 5]
    assert outage.said == [str(AWAY), ""]


def test_a_writer_publishes_once_brokers_are_back_after_five_minutes() -> None:
    outage = Outage(300)
    broker = Broker(outage)
    assert PatientWriter(broker, outage.patience).publish_epoch("app", "0-0", Marker("L", 1, "d"), [])
    assert len(broker.written) == 1


def test_brokers_that_stay_away_are_an_error_after_the_time_that_is_set() -> None:
    outage = Outage(1e9)
    with pytest.raises(LogError) as raised:
        PatientWriter(Broker(outage), outage.patience).append([])
    assert raised.value is AWAY
    assert 300 <= outage.now <= 306
    assert outage.said == [str(AWAY), ""]


def test_an_outage_of_a_moment_is_not_worth_a_word() -> None:
    outage = Outage(1.0)
    patiently(outage.patience, outage.check)
    assert outage.said == []


def test_an_attempt_that_took_a_minute_to_fail_is_told_of_at_once() -> None:
    outage = Outage(61)

    def ask() -> None:
        away = outage.now < outage.until_s
        outage.now += 60 if away else 0
        if away:
            raise AWAY

    patiently(outage.patience, ask)
    assert outage.said == [str(AWAY), ""]


def test_other_errors_are_raised_at_once() -> None:
    outage = Outage(0)

    def refuse() -> None:
        raise LogError("NOT_AUTHORIZED", "no")

    with pytest.raises(LogError, match="NOT_AUTHORIZED"):
        patiently(outage.patience, refuse)
    assert outage.now == 0


def test_each_outage_is_waited_for_anew() -> None:
    outage = Outage(200)
    patience = outage.patience
    patiently(patience, outage.check)
    outage.until_s = outage.now + 290
    patiently(patience, outage.check)


def test_a_process_of_the_run_tells_it_that_it_waits_and_that_it_goes_on(tmp_path: Path) -> None:
    patience = patience_of({"control": str(tmp_path), "patience_ms": "1000"}, f"worker-{os.getpid()}")
    control = DriverControl(tmp_path)
    assert patience.limit_s == 1.0
    patience.tell("no answer")
    assert control.waiting() == "no answer"
    patience.tell("")
    assert control.waiting() == ""


def test_what_a_process_said_that_has_died_since_does_not_count(tmp_path: Path) -> None:
    PlannerControl(tmp_path).publish_waiting("worker-999999999", "no answer")
    assert DriverControl(tmp_path).waiting() == ""


def test_on_another_machine_than_the_runs_nobody_is_told(tmp_path: Path) -> None:
    patience_of({"control": str(tmp_path / "elsewhere"), "patience_ms": "1000"}, "worker-1").tell("no answer")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("ends", ["another error", "too long"])
def test_a_wait_that_ends_in_an_error_is_said_to_be_over(ends: str) -> None:
    outage = Outage(60.0 if ends == "another error" else 1_000.0)

    def ask() -> None:
        outage.check()
        raise LogError("TRANSACTION_TIMEOUT", "aborted")

    with pytest.raises(LogError):
        patiently(outage.patience, ask)
    assert len(outage.said) == 2 and outage.said[-1] == ""
