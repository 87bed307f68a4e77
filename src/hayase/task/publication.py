"""Publications: outputs that bundles have ready for the log, and how they get there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hayase.core.failpoints import reach
from hayase.log.protocol import EpochWriter, Marker, OutgoingBatch


@dataclass(frozen=True, slots=True)
class Publication:
    """Outputs of one bundle's epoch, to be written: what they depend on, the delta among it, is published already.

    Attributes:
        application_id: of the bundle.
        bundle: whose outputs.
        marker: of the epoch.
        batches: the outputs; may be read from disk, until the bundle's next epoch begins. Empty: nothing is written.
        exactly_once: whether a marker goes with them.
        plan_position: of the bundle (see `EpochWriter.publish_epoch`).
        is_closed: likewise; `None` where the bundle has a delta of the epoch, which was looked at in its stead.
    """

    application_id: str
    bundle: str
    marker: Marker
    batches: Sequence[OutgoingBatch]
    exactly_once: bool
    plan_position: int | None = None
    is_closed: Callable[[], bool] | None = None

    @property
    def records(self) -> int:
        """How many there are."""
        return sum(map(len, self.batches))

    def reach(self, failpoint: str) -> None:
        """For tests: see `hayase.core.failpoints`."""
        reach(failpoint, bundle=self.bundle, epoch=self.marker.epoch)


def publish(publications: Sequence[Publication], writer: Callable[[], EpochWriter]) -> list[bool]:
    """Write them one by one; for each whether it was written now: not if the log had it, or there is nothing in it.

    Args:
        publications: what bundles have ready.
        writer: gives the process's writer; called only if there is something to write.

    Raises:
        HayaseError: see `EpochWriter.publish_epoch` and `append`; those before it in the sequence are written.
    """
    return [_publish(each, writer) for each in publications]


def _publish(publication: Publication, writer: Callable[[], EpochWriter]) -> bool:
    marker, batches = publication.marker, publication.batches
    publication.reach("before_publish")
    written = False
    if batches and publication.exactly_once:
        written = writer().publish_epoch(
            publication.application_id, publication.bundle, marker, batches,
            plan_position=publication.plan_position, is_closed=publication.is_closed,
        )  # fmt: skip
    elif batches:
        writer().append(batches)
        written = True
    publication.reach("after_publish")
    return written
