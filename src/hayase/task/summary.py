"""What a bundle reports about an epoch; travels back to the driver."""

from __future__ import annotations

import msgspec

from hayase.core.decoding import decode_json
from hayase.core.errors import SerializationError
from hayase.core.metrics import Count, Measure


class BundleSummary(msgspec.Struct, frozen=True):
    """One bundle, one epoch.

    Attributes:
        adopted: the epoch's delta was there already, so no user code ran.
        published: the outputs were written now; `False` if the log had them already, or there were none.
        metrics: counters.
        measures: what else was measured.
        seconds: how long each step took.
        due_ms: when a punctuation of its tasks is due by the wall clock; 0: not known; `None`: nothing will be due.
    """

    bundle: str
    epoch: int
    adopted: bool
    published: bool
    metrics: list[Count]
    seconds: dict[str, float]
    measures: list[Measure] = []
    due_ms: int | None = None

    def to_bytes(self) -> bytes:
        """As JSON."""
        return msgspec.json.encode(self)

    @classmethod
    def from_bytes(cls, data: bytes) -> BundleSummary:
        """What `to_bytes` wrote.

        Raises:
            SerializationError: `SUMMARY_DAMAGED`.
        """
        try:
            return decode_json(data, as_type=cls)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise SerializationError(
                "SUMMARY_DAMAGED",
                f"what a bundle reports about an epoch arrived damaged ({len(data)} bytes: {error}); running the epoch "
                "again is safe",
            ) from error
