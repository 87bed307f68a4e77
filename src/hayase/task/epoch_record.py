"""The epoch record: what an epoch reads, published once before any task reads it; and the epochs of a checkpoint."""

from __future__ import annotations

import hashlib
import re
from bisect import bisect_right
from collections.abc import Mapping

import msgspec
from msgspec import UNSET, UnsetType

from hayase.core.decoding import decode_json
from hayase.core.errors import CheckpointError, StateError
from hayase.core.time import to_iso
from hayase.storage.blobs import BlobStore
from hayase.storage.numbered_names import numbers_of
from hayase.task.plan import Plan

EPOCH_FOLDER = "epochs/"
EPOCH_DIGITS = 20
_DONE = ".done"
_REDONE = b" redone"
"""Behind the digest in the done mark of an epoch that did not count: the next one reads its ranges again."""
_PROBES = 24
_DIGEST_BYTES = 16
_DIGEST = re.compile(rb"[0-9a-f]{32}")
_TRAILER_BYTES = 1 + 2 * _DIGEST_BYTES
"""A line end and the digest of what is before it, in hexadecimal; records of earlier versions have none."""


class Program(msgspec.Struct, frozen=True):
    """What an epoch was begun with, beyond its plan.

    Attributes:
        term: of the run that planned it; every start has a higher one than those before.
        journalled: bundles that publish a delta in this epoch, even an empty one.
        unjournalled: sub-topologies that send rows without a delta → digest of their definition. What they send is made
            again by every attempt, so it must be the same until the epoch is done.
    """

    term: int = 0
    journalled: tuple[str, ...] = ()
    unjournalled: Mapping[str, str] = {}

    @classmethod
    def of(cls, plan: Plan, term: int) -> Program:
        """That of the epochs of a run."""
        journalled = tuple(bundle.id for bundle in plan.bundles if plan.subtopologies[bundle.subtopology].journalled)
        return cls(
            term,
            journalled,
            {
                subtopology.id: subtopology.definition
                for subtopology in plan.subtopologies.values()
                if subtopology.definition
            },
        )


class EpochRecord(msgspec.Struct, frozen=True):
    """The input of an epoch. A replay finds the same record, so it sees the same ranges, clock and plan.

    Attributes:
        epoch: counts up from 0.
        checkpoint_id: of the checkpoint.
        plan: digest of the plan.
        wall_clock_ms: never smaller than the previous epoch's.
        ranges: topic → partition → (start, end) offsets; only partitions that are read at all.
        topic_ids: topic → id.
        previous: digest of the record before, empty for the first.
        program: what it was begun with; not in records of earlier versions.
        numbered: number of its plan; not in records of plan 0.
    """

    epoch: int
    checkpoint_id: str = msgspec.field(name="lineage")
    plan: str
    wall_clock_ms: int
    ranges: Mapping[str, Mapping[int, tuple[int, int]]]
    topic_ids: Mapping[str, str]
    previous: str = ""
    program: Program | UnsetType = UNSET
    numbered: int | UnsetType = msgspec.field(default=UNSET, name="plan_number")

    def to_bytes(self) -> bytes:
        """JSON and its digest. Topics and partitions keep the order they were given in."""
        body = self._body()
        return body + b"\n" + _digest(body).encode()

    @classmethod
    def from_bytes(cls, data: bytes, epoch: int | None = None) -> EpochRecord:
        """What `to_bytes` wrote, in this version or an earlier one.

        Args:
            data: the blob.
            epoch: the epoch that it should be of.

        Raises:
            CheckpointError: `EPOCH_RECORD_CORRUPT`: it is torn or altered, or of another epoch.
        """
        body, trailer = data, b""
        if data[-_TRAILER_BYTES : -_TRAILER_BYTES + 1] == b"\n":
            body, trailer = data[:-_TRAILER_BYTES], data[-_TRAILER_BYTES + 1 :]
        if trailer and trailer.decode(errors="replace") != _digest(body):
            raise record_corrupt(f"{len(data)} bytes, wrong digest", epoch)
        try:
            record = decode_json(body, as_type=cls)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise record_corrupt(f"{len(data)} bytes: {error}", epoch) from error
        # Only this version writes what an epoch was begun with, and always with a digest.
        if not trailer and record.program is not UNSET:
            raise record_corrupt(f"{len(data)} bytes, its digest is missing", epoch)
        if epoch not in (None, record.epoch):
            raise record_corrupt(f"it is that of epoch {record.epoch}", epoch)
        return record

    @property
    def digest(self) -> str:
        """Digest of the content."""
        return _digest(self._body())

    @property
    def term(self) -> int:
        """The term of the run that planned it; 0 in records of earlier versions."""
        return self.program.term if self.program is not UNSET else 0

    @property
    def plan_number(self) -> int:
        """The number of its plan, see `hayase.query.numbered_plans`."""
        return self.numbered if self.numbered is not UNSET else 0

    @property
    def records(self) -> int:
        """How many offsets the epoch covers."""
        return sum(end - start for partitions in self.ranges.values() for start, end in partitions.values())

    def check_follows(self, before: EpochRecord | None) -> None:
        """Check that it was made behind that record; `None`: that is forgotten.

        Raises:
            CheckpointError: `EPOCH_RECORD_CORRUPT`.
        """
        if before is not None and before.digest != self.previous:
            raise record_corrupt(
                f"it follows a record with the digest {self.previous!r}; that of epoch {before.epoch}, "
                f"{record_name(before.epoch)}, has {before.digest!r}: one of the two files is of another copy of the "
                "checkpoint",
                self.epoch,
            )

    def unread(self) -> EpochRecord:
        """Where epochs are if they have not read this one's ranges, as a record that is never published."""
        ranges = {
            topic: {partition: (start, start) for partition, (start, _) in partitions.items()}
            for topic, partitions in self.ranges.items()
        }
        return msgspec.structs.replace(self, ranges=ranges)

    def journals(self, bundle: str) -> bool | None:
        """Whether a bundle publishes a delta in this epoch; `None` if a record of an earlier version does not say."""
        return None if self.program is UNSET else bundle in self.program.journalled

    def _body(self) -> bytes:
        return msgspec.json.encode(self)


def record_corrupt(why: str, epoch: int | None = None) -> CheckpointError:
    """`EPOCH_RECORD_CORRUPT`, saying what to do."""
    name = (
        f"the record of epoch {epoch}, {record_name(epoch)}"
        if epoch is not None
        else "the record of an epoch, in epochs/"
    )
    return CheckpointError(
        "EPOCH_RECORD_CORRUPT",
        f"{name} of the checkpoint, is damaged ({why}): what the epoch reads is not known. Restore the checkpoint "
        "from a copy, or start over with `hayase app reset`",
    )


def redone_mark(record: EpochRecord) -> bytes:
    """The done mark of an epoch that does not count: the next one reads its ranges again."""
    return record.digest.encode() + _REDONE


def _mark_differs(record: EpochRecord, mark: bytes) -> CheckpointError:
    """`EPOCH_RECORD_CORRUPT` of a record that is whole, naming the mark if that is no digest at all."""
    name = done_name(record.epoch)
    if not _DIGEST.fullmatch(mark):
        return CheckpointError(
            "EPOCH_RECORD_CORRUPT",
            f"the done mark of epoch {record.epoch}, {name} of the checkpoint, is damaged ({len(mark)} bytes that are "
            f"no digest); {record_name(record.epoch)} is whole. Delete {name}: the next start makes it again",
        )
    return record_corrupt(
        f"its digest is {record.digest}, its done mark {name} says {mark.decode()}: one of the two files is of another "
        "copy of the checkpoint",
        record.epoch,
    )


def record_name(epoch: int) -> str:
    """Blob name of an epoch's record."""
    return f"{EPOCH_FOLDER}{epoch:0{EPOCH_DIGITS}d}"


def done_name(epoch: int) -> str:
    """Blob name of the mark that every bundle of the epoch has completed it."""
    return f"{EPOCH_FOLDER}{epoch:0{EPOCH_DIGITS}d}.done"


def _digest(body: bytes) -> str:
    return hashlib.blake2b(body, digest_size=_DIGEST_BYTES).hexdigest()


class Epochs:
    """Reads epoch records and the marks of completed epochs. Cheap to make; keeps nothing.

    Args:
        blobs: the checkpoint.
    """

    def __init__(self, blobs: BlobStore) -> None:
        self._blobs = blobs

    def record(self, epoch: int) -> EpochRecord | None:
        """The record of an epoch; `None` if there is none (any more).

        Raises:
            CheckpointError: `EPOCH_RECORD_CORRUPT`.
        """
        data = self._blobs.get(record_name(epoch))
        return EpochRecord.from_bytes(data, epoch) if data is not None else None

    def checked_record(self, epoch: int) -> EpochRecord | None:
        """The record of an epoch that is done, compared with its done mark; `None` if there is none (any more).

        Raises:
            CheckpointError: `EPOCH_RECORD_CORRUPT`, also where it is not the one that was marked as done.
        """
        record, mark = self.record(epoch), self._blobs.get(done_name(epoch))
        if record is not None and mark is not None and mark.removesuffix(_REDONE) != record.digest.encode():
            raise _mark_differs(record, mark.removesuffix(_REDONE))
        return record

    def is_redone(self, epoch: int) -> bool:
        """Whether an epoch is marked as one that the next one does again."""
        mark = self._blobs.get(done_name(epoch))
        return mark is not None and mark.endswith(_REDONE)

    def positions(self, epoch: int) -> EpochRecord | None:
        """The record of an epoch that is done, with ranges that end where the next one goes on."""
        record = self.record(epoch)
        return record.unread() if record is not None and self.is_redone(epoch) else record

    def recorded(self) -> list[int]:
        """Epochs of which there is a record, ascending."""
        return numbers_of(self._blobs.list(EPOCH_FOLDER), EPOCH_FOLDER, EPOCH_DIGITS)

    def marked(self) -> set[int]:
        """Epochs that are marked as done."""
        return set(numbers_of(self._blobs.list(EPOCH_FOLDER), EPOCH_FOLDER, EPOCH_DIGITS, _DONE))

    def last_done(self) -> int:
        """The last epoch that every bundle has completed; -1 before the first. Lists all of them."""
        return max(self.marked(), default=-1)

    def last_done_after(self, known: int) -> int:
        """The same, found from an epoch known to be complete; `known` itself if the mark behind it is not there.

        Looks up few names. Marks are deleted after a while, so who has not looked for long uses `last_done`.
        """
        if not self._done(known + 1):
            return known
        low, step = known + 1, 1
        while step < 1 << _PROBES and self._done(low + step):
            low, step = low + step, step * 2
        high = low + step
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self._done(middle) else (low, middle)
        return low

    def at(self, time_ms: int) -> int:
        """The last completed epoch and was begun at or before a time, by the wall clock of its record.

        Raises:
            StateError: `TIME_BEFORE_HISTORY`: the oldest record that is kept is of a later time.
        """
        last = self.last_done()
        epochs = [epoch for epoch in self.recorded() if epoch <= last]
        position = bisect_right(epochs, time_ms, key=self._wall_clock_ms)
        if position == 0:
            oldest = (
                f"the oldest is epoch {epochs[0]} of {to_iso(self._wall_clock_ms(epochs[0]))}" if epochs else "none"
            )
            raise StateError(
                "TIME_BEFORE_HISTORY",
                f"No epoch of the application was begun at or before {to_iso(time_ms)} (or it is forgotten): {oldest}. "
                "Ask for a later time; state.history.retention.ms says how long older epochs are kept.",
            )
        return epochs[position - 1]

    def _wall_clock_ms(self, epoch: int) -> int:
        record = self.record(epoch)
        return record.wall_clock_ms if record is not None else -1  # forgotten meanwhile: older than all others

    def _done(self, epoch: int) -> bool:
        return self._blobs.exists(done_name(epoch))
