"""The service of a running shared runtime for other processes: carries out their requests, and publishes its status."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

import msgspec

from hayase.app.named_topology import NamedTopology
from hayase.app.run_status import RunStatus
from hayase.app.runtime_requests import RequestFolder, RuntimeRequest, RuntimeStatus, TopologyStatus
from hayase.app.states import ENDS, State
from hayase.core.errors import HayaseError, StreamsStoppedError
from hayase.runtime.wire.driver_control import DriverControl
from hayase.topology.topology import Topology

_LOG = logging.getLogger("hayase.app")

_PUBLISH_EVERY_S = 1.0


class Served(Protocol):
    """The part of a StreamsRuntime that other processes use."""

    @property
    def state(self) -> State:
        """Its state."""
        ...

    @property
    def metrics_url(self) -> str:
        """Where its metrics are served; empty if they are not."""
        ...

    @property
    def topologies(self) -> dict[str, NamedTopology]:
        """Its topologies, by name."""
        ...

    def add_topology(
        self,
        name: str,
        topology: Topology,
        settings: Mapping[str, object] | None = None,
        *,
        application_id: str | None = None,
    ) -> NamedTopology:
        """See StreamsRuntime."""
        ...

    def replace_topology(
        self,
        name: str,
        topology: Topology,
        settings: Mapping[str, object] | None = None,
        *,
        delete_removed_stores: bool = False,
    ) -> NamedTopology:
        """See StreamsRuntime."""
        ...

    def remove_topology(self, name: str, *, delete_state: bool = False) -> None:
        """See StreamsRuntime."""
        ...

    def pause(self, name: str) -> None:
        """See StreamsRuntime."""
        ...

    def resume(self, name: str) -> None:
        """See StreamsRuntime."""
        ...

    def restart(self, name: str) -> NamedTopology:
        """See StreamsRuntime."""
        ...


class RuntimeService:
    """One per running runtime; the thread that watches the runtime calls `serve`.

    Args:
        runtime: that is asked.
        folder: of its run.
        program: the topology and settings of a digest, which a process that adds a topology has put into the
            checkpoint of the runtime.
    """

    def __init__(
        self, runtime: Served, folder: Path, program: Callable[[str], tuple[Topology, Mapping[str, object]]]
    ) -> None:
        self._runtime = runtime
        self._program = program
        self._control = DriverControl(folder)
        self._published_at = 0.0
        self._requests = RequestFolder(folder)
        self._requests.open()

    def serve(self) -> None:
        """Take the requests that have come, each in a thread of its own; publish the status if it is time."""
        try:
            for request_id, request in self._requests.take():
                threading.Thread(
                    target=self._answer, args=(request_id, request), name="hayase-request", daemon=True
                ).start()
        except OSError as error:
            _LOG.debug("requests of other processes wait: %s", error)
        now = time.monotonic()
        if now - self._published_at >= _PUBLISH_EVERY_S:
            self._published_at = now
            try:
                self._control.publish_run(msgspec.json.encode(self._status()))
            except (OSError, HayaseError) as error:  # no room on the disk, for example
                _LOG.debug("the status is not published: %s", error)

    def _answer(self, request_id: str, request: RuntimeRequest) -> None:
        error: HayaseError | None = None
        lines: list[str] = []
        try:
            lines = self._carry_out(request)
        except HayaseError as failed:
            error = failed
        except Exception as failed:
            _LOG.exception("a request could not be carried out")
            error = StreamsStoppedError("REQUEST_FAILED", f"{type(failed).__name__}: {failed}")
        self._requests.answer(request_id, error, lines)

    def _carry_out(self, request: RuntimeRequest) -> list[str]:
        runtime = self._runtime
        match request.action:
            case "add":
                topology, settings = self._program(request.program)
                runtime.add_topology(request.name, topology, settings, application_id=request.application_id or None)
            case "replace":
                topology, settings = self._program(request.program)
                app = runtime.replace_topology(
                    request.name, topology, settings or None, delete_removed_stores=request.delete_removed_stores
                )
                return app.topology_changes
            case "remove":
                runtime.remove_topology(request.name, delete_state=request.delete_state)
            case "pause":
                runtime.pause(request.name)
                return _said_of_ended(runtime.topologies[request.name], "when it is started again, it will be paused")
            case "resume":
                runtime.resume(request.name)
                return _said_of_ended(runtime.topologies[request.name], "when it is started again, it will run")
            case "restart":
                runtime.restart(request.name)
        return []

    def _status(self) -> RuntimeStatus:
        topologies = {}
        for name, app in self._runtime.topologies.items():
            error = str(app.error) if app.error is not None else ""
            errors = [(failure.timestamp_ms, str(failure.error)) for failure in app.errors]
            run = RunStatus.of(app.progress(), app.replaced, error=error)
            topologies[name] = TopologyStatus(app.config.application_id, app.is_paused, run, errors)
        return RuntimeStatus(self._runtime.state.value, self._runtime.metrics_url, topologies)


def _said_of_ended(app: NamedTopology, then: str) -> list[str]:
    """What a request means for a topology that does not run; nothing for one that does."""
    return [f"{app.name} is in state {app.state.value}; {then}"] if app.state in ENDS else []
