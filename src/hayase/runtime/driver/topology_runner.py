"""Runner of one topology in a shared runtime: what `QueryRunner` is to an application with a query of its own."""

from __future__ import annotations

import contextlib
import threading
import time
from pathlib import Path

from hayase.core.errors import HayaseError, ProcessingError, StreamsStoppedError
from hayase.runtime.driver.run import Run
from hayase.runtime.driver.shared_query import SharedQuery
from hayase.runtime.wire.app_spec import AppSpec, delete_other_programs
from hayase.runtime.wire.failure import find_error
from hayase.runtime.wire.topology_list import InputEnds
from hayase.storage.blobs import BlobStore

_POLL_S = 0.01
_WAIT_S = 1.0
_TAKE_EVERY_S = 0.4
"""While epochs complete, their reports are taken in together, at most once in a commit interval: fifty topologies would
look for them all the time."""
_TAKE_EVERY_MAX_S = 1.0
_RELEASE_S = 30.0


class TopologyRunner:
    """Has the shared query run a topology, and follows it.

    Args:
        run: the run of the topology; the caller holds its lease.
        app: the topology and its settings.
        blobs: its checkpoint.
        shared: the query.
        bounded: to the ends of the input.
        ends: these ends; `None`: as they are when its loop starts.

    Attributes:
        run: the run.
    """

    def __init__(
        self,
        run: Run,
        app: AppSpec,
        blobs: BlobStore,
        shared: SharedQuery,
        *,
        bounded: bool,
        ends: InputEnds | None = None,
    ) -> None:
        self.run = run
        self._shared = shared
        self._bounded, self._ends = bounded, ends
        self._app = app
        self._options = {
            "checkpoint": app.checkpoint,
            "fsync": "true" if app.checkpoint_fsync else "false",
            "patience_ms": str(app.task_timeout_ms),
            "control": app.endpoints.control_dir,
        }
        self._publish(app, blobs)
        self._started = 0
        self._listed = False
        self._stopped = threading.Event()
        self._changed = threading.Event()
        self._taken_at = 0.0
        self._folder = Path(app.endpoints.control_dir)

    def _publish(self, app: AppSpec, blobs: BlobStore) -> None:
        digest = app.publish(blobs, self.run.vault)
        delete_other_programs(blobs, digest)
        self._options["digest"] = digest

    def start(self) -> None:
        """Have the planner of the runtime run the topology from now on."""
        self.run.control.forget_planner()
        self._started = self._shared.list_topology(
            self._app.application_id, self._options, bounded=self._bounded, ends=self._ends
        )
        self._listed = True
        self._shared.folders.add(self._folder, self._changed.set)

    def restart(self) -> None:
        """Have it run again after a failure; it goes on with the epoch that is open."""
        self._unlist()
        self.start()

    def replace(self, app: AppSpec, blobs: BlobStore) -> None:
        """Go on with a program that reads more topics. The loop is suspended."""
        self._unlist()
        self._publish(app, blobs)
        self._app = app
        self.run.control.request_change(app.hands_over)
        self.start()

    def poll(self) -> bool:
        """Take in what was reported; whether the topology is still at work."""
        control = self.run.control
        failed = (
            self._stopped.is_set() or self._shared.error is not None or control.failure() is not None or control.ended()
        )
        self.run.progress.add_reports(control.reports())
        self._taken_at = time.monotonic()
        return not failed

    def wait(self) -> None:
        """Wait until the planner has published something about the topology, or for a second."""
        if self.run.progress.epochs:
            every_s = min(max(_TAKE_EVERY_S, self._app.commit_interval_ms / 1000), _TAKE_EVERY_MAX_S)
            self._stopped.wait(max(0.0, self._taken_at + every_s - time.monotonic()))
        self._changed.wait(_WAIT_S)
        self._changed.clear()

    def error(self) -> HayaseError | None:
        """Why it ended, if it failed."""
        if self._shared.error is not None:
            return self._shared.error
        text = self.run.control.failure()
        if text is None:
            return None
        return find_error(text) or ProcessingError("PROCESSING_FAILED", f"the topology failed: {text}")

    def why_lost(self, error: BaseException) -> HayaseError:
        """What an error means that came out of a call of this object."""
        if isinstance(error, HayaseError):
            return error
        return StreamsStoppedError(
            "SUPERVISOR_FAILED",
            f"the topology cannot be watched any more, so it ends ({type(error).__name__}: {error}). Fix that and "
            "start it again; it goes on where it was",
        )

    def stop(self, timeout_s: float) -> bool:
        """Stop between epochs; in mid-epoch if that takes longer than the timeout. Whether it was between epochs."""
        control = self.run.control
        with contextlib.suppress(FileNotFoundError):  # another thread has closed it just now, and its folder is gone
            control.request_stop()
        deadline = time.monotonic() + timeout_s
        while not self._at_rest() and time.monotonic() < deadline:
            time.sleep(_POLL_S)
        clean = self._at_rest()
        self.stop_query()
        return clean

    def _at_rest(self) -> bool:
        control = self.run.control
        gone = self._shared.error is not None or control.failure() is not None or control.ended()
        return not self._listed or gone or control.suspended()

    def stop_query(self) -> bool:
        """Stop the topology at once; an epoch that is open is finished by the next start. Always true."""
        self._unlist()
        self._stopped.set()
        self._changed.set()
        return True

    def close(self) -> None:
        """Let go; waits until the slots have closed what they keep for it, within limits."""
        self._unlist()

    def _unlist(self) -> None:
        if not self._listed:
            return
        self._listed = False
        self._shared.folders.remove(self._folder)
        self._shared.unlist_topology(self._app.application_id)
        deadline = time.monotonic() + _RELEASE_S
        while self.run.control.released() < self._started and time.monotonic() < deadline:
            if self._shared.error is not None or not self._folder.is_dir():
                return
            time.sleep(_POLL_S)
