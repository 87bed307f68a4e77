"""The epoch record: what an epoch reads, published once before any task reads it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import msgspec
from msgspec import UNSET, UnsetType

from hayase.core.errors import CheckpointError
from hayase.task.plan import Plan

EPOCH_FOLDER = "epochs/"
EPOCH_DIGITS = 20
_DIGEST_BYTES = 16
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
    """

    epoch: int
    checkpoint_id: str = msgspec.field(name="lineage")
    plan: str
    wall_clock_ms: int
    ranges: Mapping[str, Mapping[int, tuple[int, int]]]
    topic_ids: Mapping[str, str]
    previous: str = ""
    program: Program | UnsetType = UNSET

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
            record = msgspec.json.decode(body, type=cls)
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
                f"it follows a record with the digest {self.previous!r}; that of epoch {before.epoch} is "
                f"{before.digest!r}",
                self.epoch,
            )

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


def record_name(epoch: int) -> str:
    """Blob name of an epoch's record."""
    return f"{EPOCH_FOLDER}{epoch:0{EPOCH_DIGITS}d}"


def done_name(epoch: int) -> str:
    """Blob name of the mark that every bundle of the epoch has completed it."""
    return f"{EPOCH_FOLDER}{epoch:0{EPOCH_DIGITS}d}.done"


def _digest(body: bytes) -> str:
    return hashlib.blake2b(body, digest_size=_DIGEST_BYTES).hexdigest()
