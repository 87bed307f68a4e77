"""The process of a server's runtime: carries out what the server asks, and reports how everything is."""

from __future__ import annotations

import logging
import os
import pickle
import queue
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import partial
from multiprocessing.connection import Connection
from typing import Any

from hayase.app.states import State
from hayase.app.streams_runtime import StreamsRuntime
from hayase.core.config import StreamsConfig
from hayase.core.errors import HayaseError, StreamsStoppedError
from hayase.core.logs import configure_logging
from hayase.runtime.wire.pickling import unpickled
from hayase.server.hosts.runtime_messages import Answer, Request, RuntimeReport, Start, TopologyReport, sendable

_LOG = logging.getLogger("hayase.server.hosts")
_LOOK_S = 0.25
"""Between two looks at the state of the runtime; topologies say when theirs changes."""
_COUNT_S = 1.0
"""Between two looks at the counts of records: that reads a file for each topology."""
_SETTLE_S = 0.01
"""Between a change of a state and its report: a topology that starts or ends changes several times."""
_NO_TOPOLOGY = {"remove_topology", "close"}
"""What is answered without a report."""


class RuntimeServant:
    """Serves one connection.

    Args:
        connection: to the server. Where it ends, so does this process, at once: the server is gone.
        make_runtime: makes the runtime of its settings.
    """

    def __init__(self, connection: Connection, make_runtime: Callable[[Mapping[str, object]], StreamsRuntime]) -> None:
        self._connection = connection
        self._make_runtime = make_runtime
        self._requests: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._sending = threading.Lock()
        self._runtime: StreamsRuntime | None = None
        self._closed = threading.Event()
        self._changed = threading.Event()
        self._reported: dict[str, TopologyReport] = {}
        self._state: tuple[State, HayaseError | None] | None = None

    def serve(self) -> None:
        """Until the server closes the runtime."""
        for work in (self._listen, self._report_changes):
            threading.Thread(target=work, name="hayase-server-link", daemon=True).start()
        while not self._closed.is_set():
            request = unpickled(self._requests.get())
            self._send(self._answer(request))
            if isinstance(request, Request):  # what was reported meanwhile may be of what the server did not know
                self._reported.pop(request.name, None)

    def _listen(self) -> None:
        while True:
            try:
                self._requests.put(self._connection.recv_bytes())
            except (OSError, EOFError):
                if self._closed.is_set():
                    return
                os._exit(1)  # whatever is being done; Spark and its processes end with this one

    def _answer(self, request: Start | Request) -> Answer:
        try:
            if isinstance(request, Start):
                self._start(request)
                return Answer()
            return Answer(self._carry_out(request))
        except HayaseError as error:
            return Answer(error=sendable(error))
        except Exception as error:
            _LOG.exception("a request of the server could not be carried out")
            return Answer(error=StreamsStoppedError("REQUEST_FAILED", f"{type(error).__name__}: {error}"))

    def _start(self, request: Start) -> None:
        config = StreamsConfig(request.settings)
        if config.log_format is None:
            configure_logging(form="text", level=config.log_level or "WARNING", secrets=config.secrets)
        runtime = self._make_runtime(request.settings)
        runtime.start()
        self._runtime = runtime

    def _carry_out(self, request: Request) -> TopologyReport | None:
        runtime = self._runtime
        if request.method == "close":
            self._close(*request.arguments)
            return None
        if runtime is None:
            raise StreamsStoppedError("NOT_STARTED", "the runtime has not been started")
        options = dict(request.options)
        if request.method == "add_topology":
            options["state_listener"] = self._note_change
        getattr(runtime, request.method)(request.name, *request.arguments, **options)
        return None if request.method in _NO_TOPOLOGY else _report_of(runtime.topology(request.name))

    def _note_change(self, new: State, old: State) -> None:
        self._changed.set()

    def _close(self, timeout: timedelta) -> None:
        self._closed.set()
        self._changed.set()
        if self._runtime is not None:
            self._runtime.close(timeout)

    def _report_changes(self) -> None:
        """States of topologies as soon as they change, counts each second."""
        count_at_s = 0.0
        while not self._closed.is_set():
            if self._changed.wait(_LOOK_S):
                time.sleep(_SETTLE_S)
                self._changed.clear()
            with_counts = time.monotonic() >= count_at_s
            if with_counts:
                count_at_s = time.monotonic() + _COUNT_S
            if self._runtime is not None:
                try:
                    self._report(self._runtime, with_counts=with_counts)
                except Exception:  # of one topology, such as a file that cannot be read: the next look may fare better
                    _LOG.exception("how the queries are could not be reported")

    def _report(self, runtime: StreamsRuntime, *, with_counts: bool) -> None:
        changed = {}
        for name, topology in runtime.topologies.items():
            before = self._reported.get(name)
            if with_counts or before is None or before.state is not topology.state:
                report = _report_of(topology)
                if report != before:
                    changed[name] = report
        state = runtime.state, runtime.error
        if changed or state != self._state:
            self._reported.update(changed)
            self._state = state
            self._send(RuntimeReport(runtime.state, sendable(runtime.error), changed))

    def _send(self, message: Answer | RuntimeReport) -> None:
        data = pickle.dumps(message)
        with self._sending:
            try:
                self._connection.send_bytes(data)
            except OSError:
                os._exit(1)


def _report_of(topology: Any) -> TopologyReport:
    progress = topology.progress()
    return TopologyReport(
        topology.state,
        sendable(topology.error),
        tuple((each.timestamp_ms, str(each.error)) for each in topology.errors),
        progress.consumed,
        progress.produced,
        progress.lag_records,
    )


def serve_argument(make_runtime: Callable[[Mapping[str, object]], StreamsRuntime]) -> None:
    """Serve the connection whose descriptor is the argument of this process."""
    for number in (signal.SIGINT, signal.SIGTERM):  # a terminal sends them to both processes; the server decides
        signal.signal(number, lambda *_: None)  # and not ignored: that would be so in all processes of Spark as well
    RuntimeServant(Connection(int(sys.argv[1])), make_runtime).serve()


if __name__ == "__main__":
    serve_argument(partial(StreamsRuntime, recall=False))
