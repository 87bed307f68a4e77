"""The metrics of one application: its registry, and the server that shows them."""

from __future__ import annotations

import time
from collections.abc import Callable
from importlib.metadata import version
from typing import TYPE_CHECKING

from hayase.app.failure_recovery import Recovery
from hayase.app.report import ProgressReport
from hayase.app.states import State
from hayase.core.config import StreamsConfig
from hayase.core.metrics_registry import MetricsRegistry, Value
from hayase.core.sampled import SampleWindows
from hayase.runtime.driver.streams_metrics import CLIENT, EPOCH, SummaryMetrics
from hayase.task.summary import BundleSummary

if TYPE_CHECKING:  # what imports PySpark is loaded when the application starts
    from hayase.app.metrics_server import MetricsServer
    from hayase.runtime.driver.progress import EpochTiming, Progress
    from hayase.runtime.wire.app_spec import AppSpec

_ORDINALS = {state: number for number, state in enumerate(State)}
"""`client-state` is a number (KIP-1091): 0 CREATED, 1 REBALANCING, 2 RUNNING, 3 PENDING_SHUTDOWN, 4 NOT_RUNNING, …"""


class Telemetry:
    """Gauges of the application, counters of its epochs, and the server if there is to be one.

    Args:
        config: says what is recorded and where it is served.
        description: of the topology.
        report: how far the application is, when asked.
        recovery: what happened to failures, when asked.
    """

    def __init__(
        self,
        config: StreamsConfig,
        description: str,
        report: Callable[[], ProgressReport],
        recovery: Callable[[], Recovery],
    ) -> None:
        self._config = config
        self._report = report
        self._slots = 0
        self._server: MetricsServer | None = None
        windows = SampleWindows(config.metrics_sample_window_ms, config.metrics_num_samples)
        self.registry = MetricsRegistry(lambda: time.monotonic_ns() // 1_000_000, windows)
        tags = self._tags = (("client-id", config.application_id),)
        gauges: dict[str, tuple[Callable[[], Value], str]] = {
            "version": (lambda: version("hayase"), "The version of Hayase"),
            "application-id": (lambda: config.application_id, "The application's id"),
            "topology-description": (lambda: description, "What is executed"),
            "state": (lambda: report().state.value, "The state of the application"),
            "client-state": (lambda: _ORDINALS[report().state], "The state of the application, as a number"),
            "recording-level": (lambda: config.metrics_recording_level, "Which metrics are recorded"),
            "alive-stream-threads": (self._alive, "The number of slots that epochs run in"),
            "failed-stream-threads": (lambda: recovery().failed, "How often the query failed since the start"),
        }
        for name, (value, what) in gauges.items():
            self.registry.gauge(CLIENT, name, tags, value, what)
        self.registry.gauge(
            EPOCH,
            "records-lag",
            tags,
            self._lag,
            "Records in the source topics that no complete epoch covers; -1: unknown",
        )
        self.registry.gauge(
            EPOCH, "offsets-lost-total", tags, self._lost,
            "Offsets that were skipped since the start, because their records were gone before they were read",
        )  # fmt: skip
        self._count_epochs(0)

    @property
    def url(self) -> str:
        """Where the metrics are served; empty if they are not."""
        return self._server.url if self._server is not None else ""

    def serve(self) -> None:
        """Start the server, if `metrics.port` is set; raises ConfigError."""
        from hayase.app.metrics_server import MetricsServer

        config = self._config
        if config.metrics_port is not None and self._server is None:
            self._server = MetricsServer(
                config.metrics_host,
                config.metrics_port,
                config.application_id,
                self.registry.snapshot,
                self._report,
                config.metrics_allowed_hosts,
            )

    def follow(self, app: AppSpec, progress: Progress) -> None:
        """Take what the bundles of a run report."""
        self._slots = app.slots
        client = self._config.application_id
        reported = SummaryMetrics(self.registry, app.slot_of_bundles(), client, self._config.metrics_recording_level)

        def on_epoch(timing: EpochTiming, summaries: list[BundleSummary]) -> None:
            for summary in summaries:
                reported.add(summary)
            self.count_epoch(timing.total_ms)

        progress.on_epoch = on_epoch

    def count_epoch(self, took_ms: float) -> None:
        """Count a completed epoch."""
        self._count_epochs(1)
        took = float(took_ms)
        self.registry.measure(EPOCH, "epoch-latency", self._tags, (1, took, took, took), "time of an epoch, in ms")

    def _count_epochs(self, number: int) -> None:
        self.registry.count(EPOCH, "epoch", self._tags, number, "completed epochs")

    def close(self) -> None:
        """Stop the server."""
        if self._server is not None:
            self._server.close()
            self._server = None

    def _alive(self) -> int:
        return self._slots if self._report().state is State.RUNNING else 0

    def _lost(self) -> int:
        return self._report().lost_offsets

    def _lag(self) -> int:
        lag = self._report().lag_records
        return -1 if lag is None else lag
