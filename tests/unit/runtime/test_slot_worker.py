"""A slot's worker: what several topologies have ready is one transaction, and their results come in order."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from hayase.core.errors import LogError, ProcessingError, ProductionError
from hayase.log.assignments import LARGE_EPOCH_RECORDS, Place
from hayase.log.kafka.slot_writer import SlotStep
from hayase.log.protocol import Marker, OutgoingBatch, OutputBatch, StoredBatch
from hayase.runtime.wire.failure import find_error
from hayase.runtime.wire.shared_options import SharedOptions
from hayase.runtime.wire.slot_messages import PoolRequest, ReleaseTopology, TopologyRequest, TopologyResult
from hayase.runtime.worker import slot_client
from hayase.runtime.worker.memory_bound import MemoryBound
from hayase.runtime.worker.slot_client import SlotWorker
from hayase.task.bundle_result import BundleResult
from hayase.task.edges import ReceivedRows
from hayase.task.epoch_record import EpochRecord
from hayase.task.publication import Publication
from hayase.task.summary import BundleSummary

RECORD = EpochRecord(3, "L", "P", 5, {"in": {0: (0, 2)}}, {"in": "1"}).to_bytes()
PLACE = Place("runtime-@slot-0", 1)


@dataclass
class Slots:
    """What the worker's topologies do, by application id."""

    refused: set[str] = field(default_factory=set)
    moved: set[str] = field(default_factory=set)
    spilled: set[str] = field(default_factory=set)
    records: dict[str, int] = field(default_factory=dict)
    slow_s: dict[str, float] = field(default_factory=dict)
    transactions: list[list[str]] = field(default_factory=list)
    others: list[str] = field(default_factory=list)
    closed: list[str] = field(default_factory=list)
    raising: dict[str, BaseException] = field(default_factory=dict)

    def publish(self, steps: Sequence[SlotStep]) -> list[bool]:
        """As the writer of the slot."""
        names = [step.application_id for step in steps]
        if self.refused & set(names):
            raise ProductionError("RECORD_REFUSED", "too large")
        if self.moved & set(names):
            raise LogError("STATE_MOVED", "another assignment says otherwise")
        self.transactions.append(names)
        return [True] * len(steps)


class Epoch:
    """A prepared epoch."""

    def __init__(self, publication: Publication) -> None:
        self.publication = publication

    def completed(self, *, published: bool) -> BundleResult:
        name = self.publication.application_id
        return BundleResult([], BundleSummary(name, 3, False, published, [], {}))


class Host:
    """A topology with one bundle."""

    can_share_files = False

    def __init__(self, slots: Slots, name: str) -> None:
        self._slots, self._name = slots, name

    def watch(self) -> None: ...

    def level_and_slot(self, task: str) -> tuple[int, int]:
        raise AssertionError(task)  # there is one level

    def received(self) -> ReceivedRows:
        return ReceivedRows()

    def prepare_level(self, *_: object) -> Iterator[Epoch]:
        time.sleep(self._slots.slow_s.get(self._name, 0.0))
        if self._name == "broken":
            raise ZeroDivisionError
        if self._name in self._slots.raising:
            raise self._slots.raising[self._name]
        count = self._slots.records.get(self._name, 1)
        batch: OutgoingBatch = OutputBatch("out", [b"k"] * count, [b"v"] * count, [1] * count)
        if self._name in self._slots.spilled:
            batch = StoredBatch("out", count, batch.load)
        yield Epoch(Publication(self._name, "0-0", Marker("L", 3, "d"), [batch], exactly_once=True))

    def publish(self, publication: Publication) -> bool:
        self._slots.others.append(publication.application_id)
        return True

    def slot_writer(self) -> Slots:
        return self._slots

    def publish_by_slot(self, steps: Sequence[SlotStep]) -> list[bool]:
        return self._slots.publish(steps)

    def close(self) -> None:
        self._slots.closed.append(self._name)
        if self._name in self._slots.raising:
            raise self._slots.raising[self._name]


@pytest.fixture
def slots() -> Slots:
    return Slots()


@pytest.fixture
def worker(slots: Slots, monkeypatch: pytest.MonkeyPatch) -> SlotWorker:
    def host(options: dict[str, str], _: object) -> Any:
        return Host(slots, options["name"])

    monkeypatch.setattr(slot_client, "WorkerProcess", host)
    monkeypatch.setattr(slot_client, "SlotProcess", lambda options: None)
    monkeypatch.setattr(slot_client, "log_to_driver", lambda *_: None)
    monkeypatch.setattr(slot_client, "TOGETHER_MAX_S", 60.0)
    return SlotWorker(SharedOptions("", 1, 1.0, "", "", "", "", "INFO", "runtime", "", False, 0))


def request(name: str, *, by_slot: bool = True, place: Place = PLACE) -> TopologyRequest:
    places = {"0-0": place} if by_slot else {}
    return TopologyRequest(name, {"digest": "d", "name": name}, RECORD, 0, 0, [], [], places)


def run(worker: SlotWorker, *requests: PoolRequest) -> list[TopologyResult]:
    return list(worker.run(requests))


def names(results: Sequence[TopologyResult]) -> list[str]:
    """Of those that are complete; others are empty."""
    return [BundleSummary.from_bytes(each.summaries[0]).bundle if each.summaries else "" for each in results]


def test_what_several_topologies_have_ready_is_one_transaction(worker: SlotWorker, slots: Slots) -> None:
    assert names(run(worker, request("a"), request("b"), request("c"))) == ["a", "b", "c"]
    assert slots.transactions == [["a", "b", "c"]]


def test_what_was_ready_some_time_ago_waits_for_no_more(
    worker: SlotWorker, slots: Slots, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slot_client, "TOGETHER_MAX_S", 0.01)
    slots.slow_s["a"] = 0.02
    assert names(run(worker, request("a"), request("b"), request("c"))) == ["a", "b", "c"]
    assert slots.transactions[0] == ["a"]


def test_the_topology_whose_record_is_refused_fails_alone_and_is_let_go_of(worker: SlotWorker, slots: Slots) -> None:
    slots.refused.add("b")
    results = run(worker, request("a"), request("b"), request("c"))
    assert names(results) == ["a", "", "c"]
    assert "RECORD_REFUSED" in results[1].error
    assert (slots.transactions, slots.closed) == ([["a"], ["c"]], ["b"])


def test_a_topology_that_fails_while_it_processes_is_in_no_transaction(worker: SlotWorker, slots: Slots) -> None:
    results = run(worker, request("a"), request("broken"), request("c"))
    assert names(results) == ["a", "", "c"]
    assert "ZeroDivisionError" in results[1].error
    assert slots.transactions == [["a", "c"]]


def test_a_large_epoch_is_written_alone(worker: SlotWorker, slots: Slots) -> None:
    slots.records["b"] = LARGE_EPOCH_RECORDS
    assert names(run(worker, request("a"), request("b"), request("c"))) == ["a", "b", "c"]
    assert slots.transactions == [["b"], ["a", "c"]]


def test_an_epoch_that_was_spilled_is_written_alone(worker: SlotWorker, slots: Slots) -> None:
    slots.spilled.add("b")
    assert names(run(worker, request("a"), request("b"), request("c"))) == ["a", "b", "c"]
    assert slots.transactions == [["b"], ["a", "c"]]


def test_a_topology_without_a_place_is_written_by_itself(worker: SlotWorker, slots: Slots) -> None:
    assert names(run(worker, request("a"), request("b", by_slot=False))) == ["a", "b"]
    assert (slots.transactions, slots.others) == ([["a"]], ["b"])


def test_a_topology_is_let_go_of_when_what_it_has_ready_is_written(worker: SlotWorker, slots: Slots) -> None:
    results = run(worker, request("a"), ReleaseTopology("a"), request("b"))
    assert names(results) == ["a", "", "b"]
    assert (slots.transactions, slots.closed) == ([["a"], ["b"]], ["a"])


def test_a_topology_with_an_id_to_itself_is_in_a_transaction_of_its_own(worker: SlotWorker, slots: Slots) -> None:
    own = Place("runtime-@slot-0-b", 2)
    assert names(run(worker, request("a"), request("b", place=own), request("c"))) == ["a", "b", "c"]
    assert slots.transactions == [["a", "c"], ["b"]]


def test_a_slot_says_which_request_it_begins_with_and_when_it_publishes_several(worker: SlotWorker) -> None:
    begun: list[int | None] = []
    list(worker.run([request("a"), request("b"), request("c")], begun.append))
    assert begun == [1, 2, None]


def test_a_slot_completes_the_one_request_that_was_left_to_it(worker: SlotWorker, slots: Slots) -> None:
    keep = [None, 1]
    results = list(worker.run([request("a"), request("b"), request("c")], kept=lambda: keep.pop(0)))
    assert names(results) == ["", "b", ""]
    assert [result.error for result in results] == ["", "", ""]
    assert (slots.transactions, slots.closed) == ([["b"]], ["a"])


def test_a_process_that_holds_too_much_memory_closes_the_half_of_its_topologies_that_was_used_longest_ago(
    worker: SlotWorker, slots: Slots
) -> None:
    held, now = [99], [0.0]
    worker._memory = MemoryBound(100, held=lambda: held[0], monotonic=lambda: now[0])
    assert names(run(worker, *map(request, "abcd"))) == ["a", "b", "c", "d"]
    assert slots.closed == []
    held[0], now[0] = 101, 2.0
    assert names(run(worker, request("a"))) == ["a"]
    assert slots.closed == ["b", "c"]
    now[0] = 4.0
    assert names(run(worker, request("d"))) == ["d"]
    assert slots.closed == ["b", "c"], "what was let go of is given back bit by bit"
    now[0] = 20.0
    assert names(run(worker, request("c"))) == ["c"]
    assert slots.closed == ["b", "c", "a"]


def test_a_slot_says_that_a_bundle_has_another_place(worker: SlotWorker, slots: Slots) -> None:
    slots.moved.add("b")
    results = run(worker, request("a"), request("b"))
    assert [(result.place_lost, bool(result.error)) for result in results] == [(False, False), (True, True)]


class Panic(BaseException):
    """What an extension in Rust raises when it panics."""


@pytest.mark.parametrize("raised", [SystemExit(3), Panic("index out of bounds")])
def test_a_topology_that_would_end_the_process_fails_alone_with_what_it_raised(
    worker: SlotWorker, slots: Slots, raised: BaseException
) -> None:
    slots.raising["b"] = raised
    results = run(worker, request("a"), request("b"), request("c"))
    assert names(results) == ["a", "", "c"]
    error = find_error(results[1].error)
    assert isinstance(error, ProcessingError) and error.condition == "PROCESSING_FAILED"
    assert "test_slot_worker.py:" in str(error) and f"{type(raised).__name__}: {raised}" in str(error)
    assert slots.closed == ["b"], "it is let go of, whatever its processors raise"


def test_control_c_ends_a_slot(worker: SlotWorker, slots: Slots) -> None:
    slots.raising["b"] = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        run(worker, request("b"))
