"""A shared runtime in a process of its own, whose topologies are added and changed as `hayase runtime` does it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass

from bench.machine import Machine
from bench.measure import RunError, running, wait_until
from bench.ours import count_by_key
from bench.processes import ProcessGroup
from bench.sides import ROOT
from hayase import StreamsBuilder, Topology
from hayase.app.membership import Membership
from hayase.app.runtime_requests import RuntimeRequest, running_runtime, runtime_status
from hayase.app.runtime_settings import own_config
from hayase.core.config import StreamsConfig
from hayase.core.errors import StreamsStoppedError
from hayase.storage.open import open_blobs

_START_S = 300.0
_REQUEST_S = 120.0
_AT_A_TIME = 4
_RUNNING = "RUNNING"


def totals(source: str, target: str) -> Topology:
    """Orders and amounts of each user of a topic."""
    builder = StreamsBuilder()
    count_by_key.build(builder, argparse.Namespace(input=source, output=target))
    return builder.build()


@dataclass(frozen=True, slots=True)
class SharedRuntime:
    """The runtime under test.

    Attributes:
        config: of the runtime.
        group: its processes.
    """

    config: StreamsConfig
    group: ProcessGroup

    def add(self, name: str, topology: Topology, settings: dict[str, object]) -> None:
        """Add a topology; it is started on return."""
        self._ask(RuntimeRequest("add", name, self._kept(topology, settings)))

    def add_all(self, topologies: Sequence[tuple[str, Topology]], settings: dict[str, object]) -> None:
        """Add topologies, some at a time; all are RUNNING on return."""
        with ThreadPoolExecutor(_AT_A_TIME) as threads:
            for added in [threads.submit(self.add, name, topology, settings) for name, topology in topologies]:
                added.result()
        wait_until(self._all_run, "all topologies are RUNNING", _START_S, self.group)

    def replace(self, name: str, topology: Topology) -> None:
        """Have another topology take the place of one."""
        self._ask(RuntimeRequest("replace", name, self._kept(topology, {})))

    def pause(self, name: str) -> None:
        """Pause a topology."""
        self._ask(RuntimeRequest("pause", name))

    def resume(self, name: str) -> None:
        """Have a paused topology go on."""
        self._ask(RuntimeRequest("resume", name))

    def remove(self, name: str) -> None:
        """Remove a topology."""
        self._ask(RuntimeRequest("remove", name))

    def _kept(self, topology: Topology, settings: dict[str, object]) -> str:
        return Membership(open_blobs(self.config.checkpoint_dir, fsync=True)).keep_program(topology, settings)

    def _ask(self, request: RuntimeRequest) -> None:
        requests, alive = running_runtime(self.config)
        requests.ask(request, _REQUEST_S, alive)

    def _all_run(self) -> bool:
        status = runtime_status(self.config)
        topologies = status.topologies if status is not None else {}
        for name, topology in topologies.items():
            if topology.run.error:
                raise RunError(f"topology {name}: {topology.run.error}")
        return bool(topologies) and all(topology.run.state == _RUNNING for topology in topologies.values())


@contextmanager
def shared_runtime(machine: Machine, application_id: str) -> Iterator[SharedRuntime]:
    """A runtime with no topologies yet; ended at the end of the block."""
    state_dir = machine.folder / application_id
    settings = {
        "application.id": application_id,
        "bootstrap.servers": machine.kafka.bootstrap,
        "state.dir": str(state_dir),
        "num.stream.threads": "2",
        "producer.compression.type": "lz4",
    }
    command = [sys.executable, "-m", "hayase", "runtime", "run"]
    for name, value in settings.items():
        command += ["-c", f"{name}={value}"]
    with running(command, machine.folder / f"{application_id}.log", ROOT) as group:
        runtime = SharedRuntime(own_config(settings), group)

        def serves() -> bool:
            try:
                running_runtime(runtime.config)
            except StreamsStoppedError:
                return False
            return True

        wait_until(serves, "the runtime takes requests", _START_S, group)
        yield runtime
