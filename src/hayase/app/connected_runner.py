"""A runner of a topology with the connectors of its program beside it."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from hayase.connect.program import ProgramConnectors
from hayase.core.errors import HayaseError
from hayase.runtime.driver.run import Run
from hayase.runtime.wire.app_spec import AppSpec
from hayase.storage.blobs import BlobStore

if TYPE_CHECKING:
    from hayase.runtime.driver.query_runner import QueryRunner
    from hayase.runtime.driver.topology_runner import TopologyRunner

_LOG = logging.getLogger("hayase.app")

_POLL_S = 0.05


class ConnectedRunner:
    """Runs sources before, and sinks behind, the topology of a bounded run; all at once where there is no end.

    Args:
        inner: runs the topology.
        connectors: of the program, checked.
        bounded: sources are read to their ends first, then the topology processes what they wrote, then sinks write
            what came out.
    """

    def __init__(self, inner: QueryRunner | TopologyRunner, connectors: ProgramConnectors, *, bounded: bool) -> None:
        self.run: Run = inner.run
        self._inner = inner
        self._connectors = connectors
        self._bounded = bounded
        self._waits_for_sources = False
        self._stopping = False
        self._stop_error: HayaseError | None = None

    def start(self) -> None:
        """See `QueryRunner.start`."""
        self._connectors.start(sources=True)
        self._waits_for_sources = self._bounded and not self._connectors.sources_at_end()
        if not self._waits_for_sources:
            self._start_inner()

    def _start_inner(self) -> None:
        self._inner.start()
        self._connectors.start(sources=False)

    def wait(self) -> None:
        """See `QueryRunner.wait`."""
        time.sleep(_POLL_S)

    def poll(self) -> bool:
        """See `QueryRunner.poll`."""
        if self._stopping:
            return not self._waits_for_sources and self._inner.poll()
        if self._connectors.error() is not None:
            self._inner.stop_query()
            return False
        if self._waits_for_sources:
            if self._connectors.sources_at_end():
                self._stop_error = self._connectors.stop(sources=True)
                if self._stop_error is not None:
                    return False
                self._waits_for_sources = False
                self._start_inner()
            return True
        if self._inner.poll():
            return True
        if not self._bounded or self._inner.error() is not None:
            return False
        if not self._connectors.sinks_at_end():
            return True
        self._stop_error = self._connectors.stop(sources=False)
        return False

    def error(self) -> HayaseError | None:
        """See `QueryRunner.error`."""
        return self._stop_error or self._connectors.error() or self._inner.error()

    def restart(self) -> None:
        """See `QueryRunner.restart`; connectors that did not fail go on."""
        self._stop_error = None
        self._connectors.restart_failed()
        if self._waits_for_sources or not self._bounded:  # else the sources have been at their ends
            self._connectors.start(sources=True)
        if self._waits_for_sources:
            return
        self._inner.restart()
        self._connectors.start(sources=False)

    def replace(self, app: AppSpec, blobs: BlobStore) -> None:
        """See `QueryRunner.replace`."""
        self._inner.replace(app, blobs)

    def why_lost(self, error: BaseException) -> HayaseError:
        """See `QueryRunner.why_lost`."""
        return self._inner.why_lost(error)

    def stop(self, timeout_s: float) -> bool:
        """See `QueryRunner.stop`; sources stop before the topology, sinks after it."""
        self._stopping = True
        self._connectors.stop(sources=True)
        clean = self._waits_for_sources or self._inner.stop(timeout_s)
        self._connectors.stop(sources=False)
        return clean

    def stop_query(self) -> bool:
        """See `QueryRunner.stop_query`."""
        return self._inner.stop_query()

    def close(self) -> None:
        """See `QueryRunner.close`."""
        try:
            self._connectors.close()
        finally:
            self._inner.close()
