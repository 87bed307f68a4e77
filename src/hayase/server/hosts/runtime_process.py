"""The runtime of a server's queries, in a process of its own, as the server sees it.

What follows fifty topologies has a hundred threads. In the server's own process a request would wait for Python's lock
behind all of them, at each of a dozen steps.
"""

from __future__ import annotations

import contextlib
import pickle
import queue
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from multiprocessing.connection import Connection

from hayase.app.reading import StoreReading
from hayase.app.runtime_settings import topology_config
from hayase.app.states import State
from hayase.core.config import StreamsConfig
from hayase.core.errors import HayaseError, StreamsStoppedError
from hayase.runtime.wire.pickling import pickled
from hayase.server.hosts.priority import lower_priority
from hayase.server.hosts.runtime_messages import Answer, Request, RuntimeReport, Start, TopologyReport
from hayase.topology.topology import Topology

CHILD = "hayase.server.hosts.runtime_child"
_END_S = 30.0
"""How much longer than the runtime the process may take to end."""


class RemoteTopology(StoreReading):
    """A topology that runs in the runtime's process, from its start to its next one; its stores are read here.

    Attributes:
        topology: as it was given.
        config: its settings.
        report: how it was when it was heard of last.
    """

    def __init__(self, topology: Topology, config: StreamsConfig, report: TopologyReport) -> None:
        self.topology = topology
        self.config = config
        self.report = report


class RuntimeProcess:
    """A `StreamsRuntime` in a process of its own, for as long as this one lives. Thread-safe.

    Args:
        settings: of the runtime.
        nice: of the process, and of all that it starts; see `lower_priority`.
        child: the module that the process runs.

    Attributes:
        state: of the runtime, as far as it was heard of.
        error: why it has ended.
    """

    def __init__(self, settings: Mapping[str, object], nice: int = 0, child: str = CHILD) -> None:
        self.state = State.CREATED
        self.error: HayaseError | None = None
        self._settings = dict(settings)
        self._nice = nice
        self._child = child
        self._topologies: dict[str, RemoteTopology] = {}
        self._lock = threading.RLock()
        self._asking = threading.Lock()
        self._answers: queue.SimpleQueue[Answer | None] = queue.SimpleQueue()
        self._answered: Callable[[TopologyReport], object] | None = None
        self._closing = False
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: Connection | None = None
        self._listener = threading.Thread(target=self._listen, name="hayase-runtime-reports", daemon=True)

    @property
    def topologies(self) -> dict[str, RemoteTopology]:
        """The topologies, by name."""
        with self._lock:
            return dict(self._topologies)

    def topology(self, name: str) -> RemoteTopology | None:
        """A topology; `None` if there is none of that name."""
        return self._topologies.get(name)

    def start(self) -> None:
        """Start the process, and Spark in it.

        Raises:
            HayaseError: Spark does not start.
        """
        ours, theirs = socket.socketpair()
        command = [sys.executable, "-m", self._child, str(theirs.fileno())]
        with theirs, ThreadPoolExecutor(1, "hayase-runtime-start") as starts:
            self._process = starts.submit(self._spawned, command, theirs.fileno()).result()
        self._connection = Connection(ours.detach())
        self._listener.start()
        if self._closing:
            self._process.kill()
        self._ask(Start(self._settings))
        self.state = State.RUNNING

    def _spawned(self, command: list[str], descriptor: int) -> subprocess.Popen[bytes]:
        """The process, which has the priority of the thread that starts it.

        That thread ends: a thread of the server with a low priority that holds Python's lock while it waits for a
        processor would keep requests waiting as well.
        """
        lower_priority(self._nice)
        return subprocess.Popen(command, pass_fds=[descriptor])

    def add_topology(
        self, name: str, topology: Topology, settings: Mapping[str, object], *, paused: bool | None = None
    ) -> None:
        """See `StreamsRuntime.add_topology`."""
        config = topology_config(self._settings, name, settings, None)
        request = Request("add_topology", name, (topology, dict(settings)), {"paused": paused})
        self._ask(request, lambda report: self._keep(name, RemoteTopology(topology, config, report)))

    def restart(self, name: str) -> None:
        """See `StreamsRuntime.restart`."""
        before = self._topologies[name]
        request = Request("restart", name, (), {})
        self._ask(request, lambda report: self._keep(name, RemoteTopology(before.topology, before.config, report)))

    def remove_topology(self, name: str, *, delete_state: bool = False, timeout: timedelta) -> None:
        """See `StreamsRuntime.remove_topology`."""
        self._ask(Request("remove_topology", name, (), {"delete_state": delete_state, "timeout": timeout}))
        with self._lock:
            self._topologies.pop(name, None)

    def pause(self, name: str) -> None:
        """See `StreamsRuntime.pause`."""
        self._ask(Request("pause", name, (), {}))

    def resume(self, name: str) -> None:
        """See `StreamsRuntime.resume`."""
        self._ask(Request("resume", name, (), {}))

    def close(self, timeout: timedelta) -> None:
        """Close the runtime and end its process, in good order or, if that takes long, at once.

        Calling it again does nothing.
        """
        process = self._process
        if process is None:
            return
        self._closing = True
        limit_s = timeout.total_seconds() + _END_S
        killer = threading.Timer(limit_s, process.kill)  # also if it does not answer any more, or another waits for it
        killer.daemon = True
        killer.start()
        with contextlib.suppress(HayaseError):  # it has ended already
            self._ask(Request("close", "", (timeout,), {}))
        assert self._connection is not None
        process.wait()
        killer.cancel()
        self._listener.join()
        self._connection.close()
        self._process = None

    def kill(self) -> None:
        """End the process at once, or as soon as there is one; `close` is still to be called."""
        self._closing = True
        process = self._process
        if process is not None:
            process.kill()

    def _keep(self, name: str, topology: RemoteTopology) -> None:
        with self._lock:
            self._topologies[name] = topology

    def _ask(self, request: Start | Request, answered: Callable[[TopologyReport], object] | None = None) -> None:
        """Have something done; raises the error that it ended with.

        Args:
            request: what.
            answered: called with the report of the answer, before the reports behind it are looked at.
        """
        data = pickled(request)
        with self._asking:
            assert self._connection is not None
            self._answered = answered
            try:
                self._connection.send_bytes(data)
            except OSError as error:
                raise self._gone() from error
            answer = self._answers.get()
        if answer is None:
            self._answers.put(None)  # for the next who asks
            raise self._gone()
        if answer.error is not None:
            raise answer.error

    def _listen(self) -> None:
        assert self._connection is not None
        while True:
            try:
                message = pickle.loads(self._connection.recv_bytes())
            except (OSError, EOFError):
                break
            if isinstance(message, RuntimeReport):
                self._take(message)
            else:
                if message.report is not None and self._answered is not None:
                    self._answered(message.report)
                self._answers.put(message)
        if not self._closing:
            self.error, self.state = self._gone(), State.ERROR
        self._answers.put(None)

    def _take(self, report: RuntimeReport) -> None:
        with self._lock:
            self.error, self.state = report.error, report.state
            for name, each in report.topologies.items():
                if name in self._topologies:
                    self._topologies[name].report = each

    def _gone(self) -> HayaseError:
        code = None if self._process is None else self._process.poll()
        how = "" if code is None else f" with {code}"
        return StreamsStoppedError(
            "RUNTIME_GONE",
            f"the process that runs the queries has ended{how}: the log says why. The server starts another one, and "
            "queries go on where they were",
        )
