"""Workers of connectors as the benchmark runs them: ours and Kafka Connect's own, on one broker and one PostgreSQL."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx2

from bench import measure
from bench.measure import RunError
from bench.processes import ProcessGroup
from hayase.testing.connect_worker import KafkaConnectWorker
from hayase.testing.maven_jars import Artifact
from hayase.testing.servers import HOST, free_ports

SIDES = ("ours", "kafka_connect")
WAIT_S = 600.0
LOOK_S = 0.05
_STOP_GRACE_S = 60.0
_ROOT = Path(__file__).parent.parent
CONVERTER = "org.apache.kafka.connect.json.JsonConverter"


class Worker:
    """A running worker, seen from outside.

    Attributes:
        url: of its REST interface.
        answer_s: from its command to its first answer.
        group: all its processes.

    Args:
        url: see above.
        group: see above.
        answer_s: see above.
    """

    def __init__(self, url: str, group: ProcessGroup, answer_s: float) -> None:
        self.url = url
        self.answer_s = answer_s
        self.group = group
        self._client = httpx2.Client(base_url=url, timeout=120)
        self._ended = threading.Event()
        self._watcher = threading.Thread(target=self._watch, daemon=True)
        self._watcher.start()

    def create(self, name: str, config: Mapping[str, str]) -> float:
        """Make a connector; seconds until it and its tasks run."""
        begin_s = time.monotonic()
        answer = self._client.put(f"/connectors/{name}/config", json=dict(config))
        if answer.status_code not in (200, 201):
            raise RunError(f"{name} is refused: {answer.text}")
        measure.wait_until(lambda: self._states(name) == {"RUNNING"}, f"{name} runs", WAIT_S)
        return time.monotonic() - begin_s

    def stop(self, name: str) -> None:
        """Stop a connector and its tasks; its configuration stays."""
        self._client.put(f"/connectors/{name}/stop").raise_for_status()
        measure.wait_until(lambda: self._states(name) == {"STOPPED"}, f"{name} is stopped", WAIT_S)

    def resume(self, name: str) -> None:
        """Start a connector again."""
        self._client.put(f"/connectors/{name}/resume").raise_for_status()

    def _states(self, name: str) -> set[str]:
        found = self._client.get(f"/connectors/{name}/status").json()
        if "connector" not in found:
            return set()
        tasks = [task["state"] for task in found["tasks"]]
        state = found["connector"]["state"]
        if "FAILED" in (state, *tasks):
            raise RunError(f"{name} has failed: {found}")
        return {state, *(tasks or (["none"] if state == "RUNNING" else []))}

    def close(self) -> None:
        """Stop looking at it."""
        self._ended.set()
        self._watcher.join()
        self._client.close()

    def _watch(self) -> None:
        while not self._ended.wait(1.0):
            self.group.sample_memory()


@contextmanager
def running_worker(side: str, bootstrap: str, folder: Path, plugin: Artifact) -> Iterator[Worker]:
    """A worker of one side, from its first answer on."""
    folder.mkdir(parents=True)
    with _ours(bootstrap, folder) if side == "ours" else _kafka_connect(bootstrap, folder, plugin) as worker:
        try:
            yield worker
        finally:
            worker.close()


@contextmanager
def running_ours(bootstrap: str, folder: Path, options: Sequence[str]) -> Iterator[Worker]:
    """Hayase's worker with further options, from its first answer on."""
    folder.mkdir(parents=True)
    with _ours(bootstrap, folder, options) as worker:
        try:
            yield worker
        finally:
            worker.close()


@contextmanager
def _kafka_connect(bootstrap: str, folder: Path, plugin: Artifact) -> Iterator[Worker]:
    begin_s = time.monotonic()
    with KafkaConnectWorker(bootstrap, folder, plugin=plugin, jvm_options=(), heap_mb=1024) as worker:
        assert worker.pid is not None
        yield Worker(worker.url, ProcessGroup(worker.pid), time.monotonic() - begin_s)


@contextmanager
def _ours(bootstrap: str, folder: Path, options: Sequence[str] = ()) -> Iterator[Worker]:
    ports = free_ports(1, skip=41)
    if ports is None:
        raise RunError("no port is free")
    url, log_file = f"http://{HOST}:{ports[0]}", folder / "worker.log"
    settings = {"key.converter": CONVERTER, "value.converter": CONVERTER, "state.dir": str(folder / "state")}
    command = [sys.executable, "-m", "hayase", "connect", "-b", bootstrap, "--listen", url, *options]
    for name, value in settings.items():
        command += ["-c", f"{name}={value}"]
    begin_s = time.monotonic()
    with measure.running(command, log_file, _ROOT, stop_grace_s=_STOP_GRACE_S) as group:
        measure.wait_until(lambda: _answers(url), "the worker answers", WAIT_S, group)
        yield Worker(url, group, time.monotonic() - begin_s)


def _answers(url: str) -> bool:
    with suppress(httpx2.HTTPError):
        return httpx2.get(f"{url}/health").status_code == 200
    return False


class Pace:
    """How fast a count grows, from the first look at which it has grown to the one at which it is complete.

    Args:
        group: the processes whose CPU time counts.
    """

    def __init__(self, group: ProcessGroup) -> None:
        self._group = group

    def measure(self, count: Callable[[], int], goal: int, what: str) -> tuple[float, float]:
        """Records a second, and CPU microseconds a record."""
        begin, first_s, first_cpu_s = 0, 0.0, 0.0
        until_s = time.monotonic() + WAIT_S
        while True:
            found = count()
            now_s, cpu_s = time.monotonic(), self._group.cpu_s()
            if found and not first_s:
                begin, first_s, first_cpu_s = found, now_s, cpu_s
            if found >= goal:
                break
            if now_s > until_s:
                raise RunError(f"only {found:,} of {goal:,} {what} after {WAIT_S:g} s")
            time.sleep(LOOK_S)
        records = goal - begin
        if not records:
            raise RunError(f"all {goal:,} {what} were there at the first look: take more of them")
        return records / (now_s - first_s), (cpu_s - first_cpu_s) / records * 1e6
