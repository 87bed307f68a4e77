"""Orders, run epoch by epoch in this process: the program that commands load."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

from tests.unit.patterns.shop import order_aggregate, topology_of
from tests.unit.query.local_app import EPOCH_MS, LocalApp

from hayase.topology.topology import Topology

order = order_aggregate()
topology = topology_of(order)


class LocalOrders:
    """An application that takes an epoch whenever something was sent, in a thread of its own."""

    def __init__(
        self,
        folder: Path,
        partitions: int = 2,
        topology: Topology = topology,
        topics: tuple[str, ...] = order.topics,
        events: str = "order-events",
    ) -> None:
        self.app = LocalApp(folder, topology, partitions=partitions)
        for name in sorted({*topics} - {*self.app.counts} - {*self.app.log.describe(topics)}):
            self.app.log.create_topic(name, partitions)
        self.app.log.alter_topic_config(events, {"retention.ms": "-1"})
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    @property
    def settings(self) -> dict[str, Any]:
        return self.app.settings

    def epoch(self, *, after_ms: int = EPOCH_MS) -> None:
        record = self.app.plan_epoch(after_ms=after_ms)
        for bundle in self.app.plan.bundles:
            self.app.run_bundle(bundle.id, record, [])
        self.app.mark_done(record)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Stop, with two more epochs: for what was sent last, and for its index."""
        self._stop.set()
        self._thread.join()
        self.epoch()
        self.epoch()

    def _run(self) -> None:
        while not self._stop.wait(0.02):
            self.epoch()
