"""Runs a query on the partitions of a store."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack

from hayase.core.errors import StateError
from hayase.core.type_variables import R
from hayase.query.checkpoint import Checkpoint
from hayase.query.position import Position, position_of
from hayase.query.queries import QueriedStore, UnknownQueryError
from hayase.query.request import FailureReason, QueryResult, StateQueryRequest, StateQueryResult
from hayase.query.source import StateSource
from hayase.query.stores import PartitionLocation, StoreHandle
from hayase.state.environment.reader import ReaderSnapshot


def run_query(
    request: StateQueryRequest[R], handle: StoreHandle, checkpoint: Checkpoint, source: StateSource
) -> StateQueryResult[R]:
    """Ask every partition that the request names."""
    places = {place.partition: place for place in handle.places}
    asked = sorted(places if request.partitions is None else request.partitions)
    known = [places[partition] for partition in asked if partition in places]
    results: dict[int, QueryResult[R]] = {
        partition: QueryResult(
            failure_reason=FailureReason.DOES_NOT_EXIST,
            failure_message=f"store {handle.name!r} has partitions 0 to {len(places) - 1}, not {partition}",
        )
        for partition in asked
        if partition not in places
    }
    positions = _Positions(checkpoint)
    for place, snapshot in _snapshots(request, known, source):
        if isinstance(snapshot, StateError):
            failure = FailureReason.NOT_PRESENT
            results[place.partition] = QueryResult(failure_reason=failure, failure_message=snapshot.message)
        else:
            results[place.partition] = _ask(request, handle, place, snapshot, positions)
    return StateQueryResult(dict(sorted(results.items())))


class _Positions:
    """Positions after epochs, each looked up once."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self._epochs = checkpoint.epochs
        self._known: dict[int, Position] = {}

    def after(self, epoch: int) -> Position:
        if epoch not in self._known:
            self._known[epoch] = position_of(self._epochs.record(epoch) if epoch >= 0 else None)
        return self._known[epoch]


def _snapshots(
    request: StateQueryRequest, places: list[PartitionLocation], source: StateSource
) -> Iterator[tuple[PartitionLocation, ReaderSnapshot | StateError]]:
    """The state of each partition: all after one epoch where that can be had, else each as it is."""
    if not request.active_required:
        try:
            with source.pin({place.bundle for place in places}, strict=False, first_epoch_wait_s=0.0) as snapshots:
                yield from ((place, snapshots[place.bundle]) for place in places)
                return
        except StateError as error:
            if error.condition != "STATE_NOT_THERE":
                raise
    for place in places:
        with ExitStack() as stack:
            try:
                snapshot = stack.enter_context(source.one(place.bundle))
            except StateError as error:
                yield place, error
            else:
                yield place, snapshot


def _ask(
    request: StateQueryRequest[R],
    handle: StoreHandle,
    place: PartitionLocation,
    snapshot: ReaderSnapshot,
    positions: _Positions,
) -> QueryResult[R]:
    position = positions.after(snapshot.epoch)
    if not request.position_bound.is_met_by(position):
        behind = _behind(request.position_bound.position, position)
        return QueryResult(
            failure_reason=FailureReason.NOT_UP_TO_BOUND,
            failure_message=f"partition {place.partition} of {handle.name!r} is after epoch {snapshot.epoch}, {behind}",
            position=position,
        )
    begun = time.perf_counter()
    answer: R | None = None
    failure, message = None, ""
    try:
        answer = request.query.answer(QueriedStore(handle.spec, handle.data(place, snapshot)))
    except UnknownQueryError as error:
        failure, message = FailureReason.UNKNOWN_QUERY_TYPE, f"store {handle.name!r}: {error}"
    except Exception as error:  # a query may be the user's own; one partition's trouble is not the others'
        failure, message = FailureReason.STORE_EXCEPTION, f"{type(error).__name__}: {error}"
    info: tuple[str, ...] = ()
    if request.execution_info_enabled:
        took_ms = (time.perf_counter() - begun) * 1000
        kind = type(request.query).__name__
        info = (f"{kind} on task {place.task}, bundle {place.bundle}, after epoch {snapshot.epoch}: {took_ms:.3f} ms",)
    return QueryResult(answer, failure, message, position, info)


def _behind(wanted: Position, position: Position) -> str:
    for topic, partitions in sorted(wanted.offsets.items()):
        for partition, offset in sorted(partitions.items()):
            known = position.offset(topic, partition)
            if known is None or known < offset:
                return f"at offset {known} of {topic}-{partition}, and {offset} is asked for"
    return ""
