"""The epoch record: what an epoch reads, published once before anybody reads it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import msgspec

from hayase.core.errors import CheckpointError

EPOCH_FOLDER = "epochs/"


class EpochRecord(msgspec.Struct, frozen=True):
    """The input of an epoch. A replay finds the same record, so it sees the same ranges, clock and plan.

    Attributes:
        epoch: counts up from 0.
        lineage: of the checkpoint.
        plan: digest of the plan.
        wall_clock_ms: never smaller than the previous epoch's.
        ranges: topic → partition → (start, end) offsets; only partitions that are read at all.
        topic_ids: topic → id.
        previous: digest of the record before, empty for the first.
    """

    epoch: int
    lineage: str
    plan: str
    wall_clock_ms: int
    ranges: Mapping[str, Mapping[int, tuple[int, int]]]
    topic_ids: Mapping[str, str]
    previous: str = ""

    def to_bytes(self) -> bytes:
        """JSON, with topics and partitions in the order they were given; reading it back keeps that order."""
        return msgspec.json.encode(self)

    @classmethod
    def from_bytes(cls, data: bytes) -> EpochRecord:
        """What `to_bytes` wrote.

        Raises:
            CheckpointError: `EPOCH_RECORD_CORRUPT`: it is torn, as a power loss may leave a file that was not synced.
        """
        try:
            return msgspec.json.decode(data, type=cls)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise CheckpointError(
                "EPOCH_RECORD_CORRUPT",
                f"the record of an epoch, in epochs/ of the checkpoint, is damaged ({len(data)} bytes: {error}): what the epoch "
                "reads is not known. Restore the checkpoint from a copy, or start over with `hayase app reset`",
            ) from error

    @property
    def digest(self) -> str:
        """Digest of the bytes."""
        return hashlib.blake2b(self.to_bytes(), digest_size=16).hexdigest()

    @property
    def records(self) -> int:
        """How many offsets the epoch covers."""
        return sum(end - start for partitions in self.ranges.values() for start, end in partitions.values())


def record_name(epoch: int) -> str:
    """Blob name of an epoch's record."""
    return f"{EPOCH_FOLDER}{epoch:020d}"


def done_name(epoch: int) -> str:
    """Blob name of the mark that every bundle of the epoch is through."""
    return f"{EPOCH_FOLDER}{epoch:020d}.done"
