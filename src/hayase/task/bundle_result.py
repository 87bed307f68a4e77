"""Results of a bundle's epoch: before its outputs are published, and afterwards."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from hayase.core.failpoints import reach
from hayase.core.metrics import Metrics
from hayase.state.delta.journal import EdgeRow
from hayase.task.publication import Publication
from hayase.task.summary import BundleSummary


@dataclass(slots=True)
class EpochSteps:
    """Wall time of each step of one epoch."""

    seconds: dict[str, float] = field(default_factory=dict)
    _since: float = field(default_factory=time.perf_counter)

    def done(self, name: str) -> None:
        """The time since the step before, or since the start, was that of this step."""
        now = time.perf_counter()
        self.seconds[name] = round(self.seconds.get(name, 0.0) + now - self._since, 6)
        self._since = now


@dataclass(slots=True)
class BundleResult:
    """What goes on to Spark; rows may be read from disk, until the bundle's next epoch begins."""

    rows: Iterable[EdgeRow]
    summary: BundleSummary


@dataclass(frozen=True, slots=True)
class PreparedEpoch:
    """An epoch of a bundle of which only the publication is left: its delta is published and applied.

    Attributes:
        publication: what is to be written to the log now.
    """

    publication: Publication
    _rows: Iterable[EdgeRow]
    _adopted: bool
    _metrics: Metrics
    _steps: EpochSteps
    _due_ms: int | None
    _note_completed: Callable[[], None]

    def completed(self, *, published: bool) -> BundleResult:
        """The epoch's result, once its outputs are in the log.

        Args:
            published: whether they were written now; `False` if the log had them already, or there were none.
        """
        bundle, epoch = self.publication.bundle, self.publication.marker.epoch
        self._steps.done("publish")
        reach("before_rows", bundle=bundle, epoch=epoch)
        self._note_completed()
        summary = BundleSummary(
            bundle, epoch, self._adopted, published, self._metrics.counts(), self._steps.seconds,
            self._metrics.measures(), self._due_ms,
        )  # fmt: skip
        return BundleResult(self._rows, summary)
