"""The runtime of a server's queries in a process of its own: requests, reports, and the end of either process."""

from __future__ import annotations

import contextlib
import os
import pickle
import queue
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from datetime import timedelta
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, cast

import pytest
from tests.unit.server.command_servers import client_of, ksql, wait_until
from tests.unit.server.runtime_of_tests import START_TAKES_S, QuietRuntime

from hayase.app.runtime_settings import topology_config
from hayase.app.states import State
from hayase.app.streams_runtime import StreamsRuntime
from hayase.connect import worker_lease
from hayase.core.errors import StreamsStoppedError, TopologyError
from hayase.dsl.builder import StreamsBuilder
from hayase.runtime.wire.pickling import pickled
from hayase.server.context import ServerContext
from hayase.server.hosts import runtime_child, runtime_process, spark
from hayase.server.hosts.protocol import QueryState
from hayase.server.hosts.runtime_child import RuntimeServant
from hayase.server.hosts.runtime_messages import Answer, Request, RuntimeReport, Start
from hayase.server.hosts.runtime_process import RuntimeProcess
from hayase.server.server import open_server
from hayase.server.settings import ServerSettings
from hayase.topology.topology import Topology

pytestmark = pytest.mark.long

FIRST_ENDS = "TEST_FIRST_RUNTIME_ENDS"
ROOT = Path(__file__).parents[3]
TIMEOUT = timedelta(seconds=5)
NICE = 17
_WITH_SHORT_BEATS = {**(worker_lease.WorkerLease.__init__.__kwdefaults__ or {}), "beat_s": 0.1}


def copying() -> Topology:
    builder = StreamsBuilder()
    builder.stream("a").to("b")
    return builder.build()


@pytest.fixture
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RuntimeProcess]:
    monkeypatch.setenv("PYTHONPATH", f"{ROOT}{os.pathsep}{ROOT / 'src'}")
    settings = {"application.id": "r", "log.dir": str(tmp_path / "log"), "state.dir": str(tmp_path / "state")}
    opened = RuntimeProcess(settings, NICE, "tests.unit.server.runtime_of_tests")
    opened.start()
    yield opened
    opened.close(TIMEOUT)


def pid_of(runtime: RuntimeProcess) -> int:
    assert runtime._process is not None
    return runtime._process.pid


def test_topologies_are_added_watched_and_removed_in_the_other_process(runtime: RuntimeProcess) -> None:
    runtime.add_topology("a", copying(), {})
    added = runtime.topology("a")
    assert added is not None and added.report.state is State.RUNNING and runtime.state is State.RUNNING
    runtime.pause("a")
    wait_until(lambda: added.report.state is State.ERROR)
    assert str(added.report.error) == "[BROKEN] it is broken (offset 7)"
    runtime.remove_topology("a", timeout=TIMEOUT)
    assert runtime.topologies == {}


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="threads have priorities of their own on Linux only")
def test_the_process_gives_way_and_no_thread_of_the_server_does_so(runtime: RuntimeProcess) -> None:
    assert os.getpriority(os.PRIO_PROCESS, pid_of(runtime)) == max(NICE, os.getpriority(os.PRIO_PROCESS, 0))
    threads = [int(thread.name) for thread in Path("/proc/self/task").iterdir()]
    assert {os.getpriority(os.PRIO_PROCESS, thread) for thread in threads} == {os.getpriority(os.PRIO_PROCESS, 0)}


def test_a_topology_that_fails_before_the_server_has_noted_it_is_seen_to_have_failed(
    runtime: RuntimeProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slowly(*given: Any) -> Any:
        time.sleep(1.0)  # longer than its reports take
        return topology_config(*given)

    monkeypatch.setattr(runtime_process, "topology_config", slowly)
    runtime.add_topology("short", copying(), {})
    wait_until(lambda: runtime.topologies["short"].report.state is State.ERROR, 10)


def test_a_change_of_a_topology_is_reported_at_once_and_not_with_the_next_look(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(runtime_child, "_LOOK_S", 3600.0)
    ours, theirs = socket.socketpair()
    connection, other = Connection(ours.detach()), Connection(theirs.detach())
    servant = RuntimeServant(other, lambda settings: cast("StreamsRuntime", QuietRuntime(settings)))
    threading.Thread(target=servant.serve, daemon=True).start()
    messages: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def listen() -> None:
        with contextlib.suppress(EOFError, OSError):
            while True:
                messages.put(pickle.loads(connection.recv_bytes()))

    threading.Thread(target=listen, daemon=True).start()
    start = Start({"application.id": "r"})
    for request in (start, Request("add_topology", "a", (copying(), {}), {}), Request("pause", "a", (), {})):
        connection.send_bytes(pickled(request))
    said = [messages.get(timeout=10) for _ in range(4)]
    reported = [each.topologies["a"].state for each in said if isinstance(each, RuntimeReport)]
    connection.send_bytes(pickled(Request("close", "", (TIMEOUT,), {})))
    assert messages.get(timeout=10) == Answer()
    other.close()
    assert reported[-1:] == [State.ERROR]


def test_a_topology_whose_state_cannot_be_read_does_not_end_the_reports_of_others(runtime: RuntimeProcess) -> None:
    runtime.add_topology("unreadable", copying(), {})
    time.sleep(1.5)
    runtime.remove_topology("unreadable", timeout=TIMEOUT)
    runtime.add_topology("a", copying(), {})
    runtime.pause("a")
    wait_until(lambda: runtime.topologies["a"].report.state is State.ERROR, 10)


def test_a_process_that_is_stopped_is_killed_when_the_runtime_is_closed(
    runtime: RuntimeProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runtime_process, "_END_S", 0.5)
    os.kill(pid_of(runtime), signal.SIGSTOP)
    begun = time.monotonic()
    runtime.close(timedelta(seconds=0.5))
    assert time.monotonic() - begun < 20


def test_errors_are_those_of_the_runtime(runtime: RuntimeProcess) -> None:
    with pytest.raises(TopologyError, match="there is one"):
        runtime.add_topology("fails", copying(), {})
    with pytest.raises(StreamsStoppedError, match="KeyError"):
        runtime.pause("nope")
    assert runtime.topologies == {}


def test_a_process_that_was_killed_is_an_error_of_the_runtime_and_of_what_waits_for_it(runtime: RuntimeProcess) -> None:
    killer = threading.Timer(1.0, os.kill, (pid_of(runtime), signal.SIGKILL))
    killer.start()
    with pytest.raises(StreamsStoppedError, match="has ended"):
        runtime.add_topology("slow", copying(), {})
    with pytest.raises(StreamsStoppedError, match="The server starts another one"):
        runtime.add_topology("a", copying(), {})
    assert runtime.state is State.ERROR and runtime.error is not None


def test_the_process_ends_when_the_server_has_gone_whatever_it_does_and_not_by_a_signal_to_both(
    runtime: RuntimeProcess,
) -> None:
    process, connection = runtime._process, runtime._connection
    assert process is not None and connection is not None
    failed: list[BaseException] = []

    def add() -> None:
        try:
            runtime.add_topology("slow", copying(), {})
        except StreamsStoppedError as error:
            failed.append(error)

    adding = threading.Thread(target=add)
    adding.start()
    time.sleep(0.5)
    for number in (signal.SIGINT, signal.SIGTERM):
        os.kill(process.pid, number)
    time.sleep(0.5)
    assert process.poll() is None
    with socket.socket(fileno=os.dup(connection.fileno())) as link:
        link.shutdown(socket.SHUT_RDWR)  # what the end of the server does to it
    assert process.wait(30) == 1
    adding.join()
    assert len(failed) == 1


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[RuntimeProcess]:
    """The runtimes of servers, whose processes do nothing; the first one ends at once if it is to."""
    monkeypatch.setenv("PYTHONPATH", f"{ROOT}{os.pathsep}{ROOT / 'src'}")
    found: list[RuntimeProcess] = []

    def make(settings: Mapping[str, object], nice: int) -> RuntimeProcess:
        ends = os.environ.get(FIRST_ENDS) and not found
        found.append(RuntimeProcess(settings, nice, "no_such_module" if ends else "tests.unit.server.runtime_of_tests"))
        return found[-1]

    monkeypatch.setattr(runtime_process, "RuntimeProcess", make)
    return found


def settings_of(folder: Path, **more: object) -> ServerSettings:
    return ServerSettings.of(
        {
            "hayase.server.in.process": "false",
            "log.dir": str(folder / "log"),
            "state.dir": str(folder / "state"),
            "ksql.query.retry.backoff.initial.ms": 1,
            "hayase.server.queries.nice": 0,
            **more,
        }
    )


@contextlib.contextmanager
def server_with_queries(folder: Path) -> Iterator[ServerContext]:
    """A server with two queries, whose runtime is replaced at once."""
    context = open_server(settings_of(folder))
    try:
        ksql(
            client_of(context),
            "CREATE STREAM a (k STRING KEY, v INT) WITH (kafka_topic='a', value_format='JSON', partitions=1);"
            "CREATE STREAM b AS SELECT * FROM a; CREATE STREAM c AS SELECT * FROM a;",
        )
        yield context
    finally:
        context.close()


def check_second(made: list[RuntimeProcess], context: ServerContext) -> None:
    """A second runtime has the queries."""
    wait_until(lambda: len(made) == 2 and len(made[1].topologies) == 2, 60)
    assert {context.host.status(query).state for query in context.engine.queries} == {QueryState.RUNNING}
    assert context.host.problem() is None


def test_a_runtime_whose_process_was_killed_is_replaced_and_has_all_queries_again(
    tmp_path: Path, made: list[RuntimeProcess]
) -> None:
    with server_with_queries(tmp_path) as context:
        wait_until(lambda: len(made) == 1 and len(made[0].topologies) == 2, 60)
        os.kill(pid_of(made[0]), signal.SIGKILL)
        check_second(made, context)


def test_a_runtime_that_does_not_start_is_replaced(
    tmp_path: Path, made: list[RuntimeProcess], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(FIRST_ENDS, "yes")
    with server_with_queries(tmp_path) as context:
        check_second(made, context)


@pytest.mark.parametrize("first_ends", [False, True])
def test_a_server_that_stops_while_its_runtime_starts_does_not_wait_for_that(
    tmp_path: Path, made: list[RuntimeProcess], monkeypatch: pytest.MonkeyPatch, first_ends: bool
) -> None:
    monkeypatch.setattr(spark, "_START_MAX_S", 1.0)
    monkeypatch.setenv(START_TAKES_S, "600")
    if first_ends:
        monkeypatch.setenv(FIRST_ENDS, "yes")
    with server_with_queries(tmp_path):
        wait_until(lambda: len(made) == 1 + first_ends and made[-1]._connection is not None, 60)
        began_s = time.monotonic()
    assert time.monotonic() - began_s < 20
    assert made[-1]._process is None


def test_a_server_whose_lease_was_taken_ends_the_process_of_its_runtime(
    tmp_path: Path, made: list[RuntimeProcess], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_lease.WorkerLease.__init__, "__kwdefaults__", _WITH_SHORT_BEATS)
    with server_with_queries(tmp_path) as context:
        wait_until(lambda: len(made) == 1 and len(made[0].topologies) == 2, 60)
        process = made[0]._process
        assert process is not None
        with monkeypatch.context() as silent:
            silent.setattr(worker_lease.WorkerLease, "_last_beat_of_former_holder", lambda lease: lease._last()[0])
            settings = settings_of(tmp_path, **{"state.dir": str(tmp_path / "elsewhere")})
            other = open_server(settings, start_queries=False)
        try:
            assert process.wait(20) == 0
            assert context.status == "DEGRADED"
            assert {context.host.status(query).state for query in context.engine.queries} == {QueryState.UNRESPONSIVE}
            assert other.status == "RUNNING"
        finally:
            other.close()
