"""Writer of a slot of a shared runtime: what the slot has ready, in one transaction under the slot's id.

What is looked at, and in which order, is what makes it exactly-once: `docs/decisions/20261125-slot-producers.md`.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from confluent_kafka import KafkaError, KafkaException

from hayase.core.errors import HayaseError, LogError
from hayase.log.assignments import Assignment, Assignments, Place
from hayase.log.kafka.admin import KafkaAdmin
from hayase.log.kafka.clients import explained_error, given_by_user, kafka_error
from hayase.log.kafka.forks import ProcessBound
from hayase.log.kafka.markers import MarkerKey, MarkerTopics, slot_key
from hayase.log.kafka.transactions import (
    EpochWrite,
    TransactionalProducer,
    TransactionTimeoutError,
    given_transaction_timeout_s,
    ownership_lost,
    transaction_timeout,
    unanswered,
)
from hayase.log.protocol import LogConfig, Marker, OutgoingBatch, check_attempt, is_published

_LOG = logging.getLogger("hayase.log.kafka.slots")

_ATTEMPTS = 5
_FIRST_BACKOFF_S = 0.05
_BACKOFF_FACTOR = 3
_TRANSACTION_MAX_S = 900.0
_MORE_TIME = 4
_LOST_OFTEN = 10
_LOST_WITHIN_S = 60.0
"""An id that is lost so often within this time, by one and the same assignment, is not lost to a process that took this
one's place: these come with Spark jobs, one each, and a spare process takes the id two or three times before a slow
epoch has one to itself."""


class SlotStep(NamedTuple):
    """Outputs of one bundle's epoch, to be published at the place that an assignment gave the bundle.

    Attributes:
        place: where.
        position: the bundle's number in the plan, see `EpochWriter.publish_epoch`.
        is_closed: see `EpochWriter.publish_epoch`; `None` where the bundle has a delta of the epoch.
    """

    application_id: str
    bundle: str
    place: Place
    position: int | None
    marker: Marker
    batches: Sequence[OutgoingBatch]
    is_closed: Callable[[], bool] | None = None

    @property
    def id(self) -> str:
        """The transactional id under which it is published: of all attempts of the epoch the same."""
        if self.is_closed is not None:  # without a delta each attempt makes its own outputs: more, or fewer
            return self.place.id
        return self.place.id_for(sum(map(len, self.batches)))


@dataclass(slots=True)
class _Session:
    """A transactional id from one `init_transactions` to the next error.

    Attributes:
        assignment: the newest one, as it was after that or later.
        begun: number of the assignment that was the newest when it began.
        last: the markers of bundles that it has met; `None`: there was none.
    """

    producer: TransactionalProducer
    assignment: Assignment
    begun: int
    last: dict[MarkerKey, Marker | None] = field(default_factory=dict)


class SlotWriter(ProcessBound):
    """Publishes steps with the ids of their places, which it takes when it first needs them.

    Args:
        config: the log.
        assignments: of the runtime.
        timeout_s: how long a step may take without an answer.
        monotonic: the clock for timeouts, in seconds.
        wall_clock_s: the time that marker records carry, in seconds since 1970.
        sleep: waits that many seconds after the id was lost to another process.
    """

    def __init__(
        self,
        config: LogConfig,
        assignments: Assignments,
        *,
        timeout_s: float = 60.0,
        monotonic: Callable[[], float] = time.monotonic,
        wall_clock_s: Callable[[], float] = time.time,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        super().__init__()
        self._config = config
        self._assignments = assignments
        self._timeout_s = timeout_s
        self._monotonic = monotonic
        self._wall_clock_s = wall_clock_s
        self._sleep = sleep
        self._admin = KafkaAdmin(config, timeout_s=timeout_s, monotonic=monotonic, sleep=sleep)
        self._markers = MarkerTopics(config, self._admin, timeout_s=timeout_s, monotonic=monotonic)
        self._partition_counts: dict[str, int] = {}  # of markers topics, by application id
        self._sessions: dict[str, _Session] = {}
        self._lost: dict[str, int] = {}  # id → `begun` of its last session, if the id was taken
        self._lost_at: deque[float] = deque(maxlen=_LOST_OFTEN)
        self._transaction_timeout_s = given_transaction_timeout_s(config)
        self._timeout_given = given_by_user(config, "transaction.timeout.ms") is not None

    def publish(self, steps: Sequence[SlotStep]) -> list[bool]:
        """Write the steps' outputs exactly once, in one transaction; for each whether it was written now.

        After an error nothing is known: it may be called again, with the same steps or with some of them.

        Args:
            steps: of any bundles, no bundle twice, all with the same id.

        Raises:
            ProductionError: a record was refused permanently; nothing was written.
            LogError: `STATE_MOVED`: a bundle has another place by now, or a later epoch is in the log; another run is
                at work. `BUNDLE_OWNED_ELSEWHERE`, `TRANSACTION_TIMEOUT`, or the log could not be reached in time.
            CheckpointError: see `EpochWriter.publish_epoch`.
        """
        (id_,) = {step.id for step in steps}
        attempt = 0
        while True:
            attempt += 1
            try:
                return self._try(id_, steps)
            except (KafkaException, TransactionTimeoutError) as error:
                self._check_again(error, id_, steps, attempt)

    def close(self) -> None:
        """Let go of connections."""
        for id_ in list(self._sessions):
            self._end_session(id_)
        self._markers.close()
        self._admin.close()

    def forget_clients(self) -> None:
        """See `ProcessBound.forget_clients`."""
        self._sessions = {}

    def _try(self, id_: str, steps: Sequence[SlotStep]) -> list[bool]:
        session = self._sessions.get(id_)
        if session is None:
            session = self._sessions[id_] = self._begin(id_, steps)
        if not all(_is_placed(step, session.assignment) for step in steps):
            session.assignment = self._newest()
        for step in steps:
            if not _is_placed(step, session.assignment):
                raise _place_lost(step, session.assignment)
        writes = [self._write(step) for step in steps]
        self._learn(session, writes)
        new = [not is_published(session.last[each.partition, each.key], each.marker) for each in writes]
        if any(new):
            for step, is_new in zip(steps, new, strict=True):
                if is_new:
                    check_attempt(step.bundle, step.marker, step.is_closed)
            missing = [each for each, is_new in zip(writes, new, strict=True) if is_new]
            try:
                session.producer.write(missing, int(self._wall_clock_s() * 1000))
            except BaseException as error:
                if isinstance(error, KafkaException) and ownership_lost(kafka_error(error)):
                    self._lost[id_] = session.begun
                self._end_session(id_)
                raise
            session.last |= {(each.partition, each.key): each.marker for each in missing}
        return new

    def _begin(self, id_: str, steps: Sequence[SlotStep]) -> _Session:
        """Take the id; then read the newest assignment, which is no use if it is older than that."""
        topic = self._write(steps[0]).partition.topic
        producer = TransactionalProducer(
            self._config, id_, topic,
            timeout_s=self._timeout_s, transaction_timeout_s=self._transaction_timeout_s, monotonic=self._monotonic,
        )  # fmt: skip
        assignment = self._newest()
        if self._lost.pop(id_, None) == assignment.number:
            self._note_loss(id_)
        return _Session(producer, assignment, assignment.number)

    def _note_loss(self, id_: str) -> None:
        """Warn if an id is taken again and again though no assignment has changed."""
        self._lost_at.append(self._monotonic())
        if len(self._lost_at) == _LOST_OFTEN and self._lost_at[-1] - self._lost_at[0] < _LOST_WITHIN_S:
            self._lost_at.clear()
            _LOG.warning(
                "other processes have taken the transactional id %s %d times within %g s: a second runtime with this "
                "application.id seems to run, with another checkpoint (state.dir, checkpoint.dir). Nothing is lost or "
                "written twice, but each aborts transactions of the other: stop one, or give it another "
                "application.id",
                id_,
                _LOST_OFTEN,
                _LOST_WITHIN_S,
            )

    def _newest(self) -> Assignment:
        return self._assignments.newest()

    def _write(self, step: SlotStep) -> EpochWrite:
        application_id = step.application_id
        if application_id not in self._partition_counts:
            self._partition_counts[application_id] = self._markers.ensure(application_id)
        count = self._partition_counts[application_id]
        partition = self._markers.partition_of(application_id, step.bundle, count, step.position)
        return EpochWrite(step.bundle, slot_key(step.bundle), partition, step.marker, step.batches)

    def _learn(self, session: _Session, writes: Sequence[EpochWrite]) -> None:
        """Read the markers of bundles that this session has not met."""
        new = {(each.partition, each.key) for each in writes} - session.last.keys()
        if new:
            found = self._markers.last_of(new)
            session.last |= {each: found.get(each) for each in new}

    def _end_session(self, id_: str) -> None:
        """Let go of an id; what became of its transaction, only the markers say that the next session reads."""
        session = self._sessions.pop(id_, None)
        if session is not None:
            session.producer.discard()
        self._partition_counts.clear()  # a topic may have been deleted by a reset

    def _check_again(
        self,
        failure: KafkaException | TransactionTimeoutError,
        id_: str,
        steps: Sequence[SlotStep],
        attempt: int,
    ) -> None:
        """Give another process that took the id some time, or the next transaction more; raises if that is no use."""
        first = steps[0]
        if isinstance(failure, TransactionTimeoutError):
            had_s = self._transaction_timeout_s
            if self._timeout_given or had_s >= _TRANSACTION_MAX_S or attempt >= _ATTEMPTS:
                raise transaction_timeout(first.marker, first.bundle, had_s) from failure
            self._transaction_timeout_s = min(_TRANSACTION_MAX_S, _MORE_TIME * had_s)
            _LOG.warning("brokers aborted a transaction of %s after %g s, so the next has more time", id_, had_s)
            return
        reason = kafka_error(failure)
        if reason.code() == KafkaError.INVALID_TRANSACTION_TIMEOUT:
            raise transaction_timeout(
                first.marker, first.bundle, self._transaction_timeout_s, refused=True
            ) from failure
        if unanswered(reason) or attempt >= _ATTEMPTS:
            raise self._given_up(reason, first) from failure
        self._sleep(_FIRST_BACKOFF_S * _BACKOFF_FACTOR ** (attempt - 1))

    def _given_up(self, reason: KafkaError, step: SlotStep) -> HayaseError:
        if not ownership_lost(reason):
            return explained_error(self._config, "producer", reason, "publishing an epoch", bundle=step.bundle)
        return LogError(
            "BUNDLE_OWNED_ELSEWHERE",
            f"other processes took over the transactional id {step.id} {_ATTEMPTS} times while epoch "
            f"{step.marker.epoch} was written. Trying again is safe; if it does not end, look for a second copy of the "
            "runtime",
            bundle=step.bundle,
        )


def _is_placed(step: SlotStep, assignment: Assignment) -> bool:
    return assignment.place(step.application_id, step.bundle) == step.place


def _place_lost(step: SlotStep, assignment: Assignment) -> LogError:
    return LogError(
        "STATE_MOVED",
        f"epoch {step.marker.epoch} was to be published under {step.id} by assignment {step.place.since}, but "
        f"assignment {assignment.number} says otherwise: another run, or a restart of the topology, has overtaken this "
        "one. Nothing was written",
        bundle=step.bundle,
        epoch=step.marker.epoch,
    )
