"""The processes of the shop: started, watched, and killed in the middle of their work if that is asked for."""

from __future__ import annotations

import json
import os
import sys
import urllib.request
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import psutil

from hayase.app.runtime_requests import runtime_status
from hayase.app.runtime_settings import own_config
from hayase.app.states import State
from hayase.cli.demo.example import example_file
from hayase.core.errors import StreamsStoppedError
from hayase.core.private_files import private_folder
from hayase.testing.servers import ServerProcess

APPLICATION_ID = "hayase-shop"
SERVICES = ("stock", "payments", "shipping", "orders")
RUNTIME = "services"
"""Name of the process that runs all of them in one Spark."""
_TAIL_LINES = 15
_GONE_S = 20.0
_REST_TIMEOUT_S = 5.0
_KILLS_PER_ORDERS = (20, 2, 500)
"""At least, for each order, and at most: so many events lie between two kills."""


def application_id(service: str) -> str:
    """The `application.id` of a service; the same whether it has a Spark of its own or not."""
    return f"{APPLICATION_ID}-{service}"


@dataclass(frozen=True, slots=True)
class Command:
    """What a process runs.

    Attributes:
        arguments: the program first.
        environment: beside that of this process.
    """

    arguments: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict)


def commands_of_services(
    settings: Mapping[str, object], services: Sequence[str] = SERVICES, *, apart: bool
) -> dict[str, Command]:
    """The commands that run the applications, by the name of the process.

    Args:
        settings: `log.dir` and `state.dir`.
        services: that are applications.
        apart: whether each has a process and a Spark of its own.
    """
    if apart:
        return {name: hayase_command("run", _target(name), settings=_with_id(settings, name)) for name in services}
    targets = [f"{name}={_target(name)}" for name in services]
    return {RUNTIME: hayase_command("runtime", "run", *targets, settings=_with_id(settings))}


def hayase_command(
    *arguments: str, settings: Mapping[str, object], environment: Mapping[str, str] | None = None
) -> Command:
    """A command of Hayase, with this Python and settings."""
    given = [part for key, value in settings.items() for part in ("-c", f"{key}={value}")]
    return Command([sys.executable, "-m", "hayase", *arguments, *given], environment or {})


class ShopProcesses:
    """Runs commands, each in a process of its own, until they are closed.

    Args:
        commands: by name.
        folder: where what they say goes.
    """

    def __init__(self, commands: Mapping[str, Command], folder: Path) -> None:
        self._commands = dict(commands)
        self._folder = folder
        self._processes: dict[str, ServerProcess] = {}

    @property
    def names(self) -> list[str]:
        """Of the processes, in order."""
        return sorted(self._commands)

    def start(self) -> None:
        """Start all of them; returns at once."""
        private_folder(self._folder)
        for name in self._commands:
            self._start(name)

    def _start(self, name: str) -> None:
        command = self._commands[name]
        environment = {**os.environ, **command.environment}
        self._processes[name] = ServerProcess([*command.arguments], self._output(name), environment)

    def _output(self, name: str) -> Path:
        return self._folder / f"{name}.log"

    def check(self) -> None:
        """Raise if one has ended by itself.

        Raises:
            StreamsStoppedError: `SERVICE_FAILED`, with the last lines that it said.
        """
        for name, process in self._processes.items():
            if process.pid is None:
                tail = self._output(name).read_text(errors="replace").strip().splitlines()[-_TAIL_LINES:]
                said = f"it ended with status {process.status}: {' / '.join(tail)}; see {self._output(name)}"
                raise _failed(name, said)

    def kill(self, name: str) -> None:
        """Kill a process with all its children, as a crash does, and start it again."""
        process = self._processes[name]
        children: list[psutil.Process] = []
        with suppress(psutil.NoSuchProcess):
            if process.pid is not None:
                children = psutil.Process(process.pid).children(recursive=True)
        process.end(by_force=True)
        for child in children:
            with suppress(psutil.NoSuchProcess):
                child.kill()
        psutil.wait_procs(children, timeout=_GONE_S)
        self._start(name)

    def close(self) -> None:
        """End all of them in good order."""
        for process in self._processes.values():
            process.end()
        self._processes.clear()


def check_connectors(url: str) -> None:
    """Raise if a connector, or a task of one, has failed; a worker that does not answer is left to `check`.

    Raises:
        StreamsStoppedError: `SERVICE_FAILED`.
    """
    try:
        with urllib.request.urlopen(f"{url}/connectors?expand=status", timeout=_REST_TIMEOUT_S) as answer:
            found = json.load(answer)
    except (OSError, ValueError):
        return
    for name, each in found.items():
        status = each["status"]
        for part in (status["connector"], *status["tasks"]):
            if part["state"] == "FAILED":
                raise _failed(f"connector {name}", part.get("trace", "").strip())


def check_topologies(settings: Mapping[str, object]) -> None:
    """Raise if an application in the one Spark has failed, which does not end the process.

    Raises:
        StreamsStoppedError: `SERVICE_FAILED`.
    """
    status = runtime_status(own_config(_with_id(settings)))
    for name, topology in ({} if status is None else status.topologies).items():
        if topology.run.state == State.ERROR.name:
            raise _failed(name, topology.run.error)


class Killer:
    """Kills a process at random whenever some events have come since the last time.

    Args:
        processes: what is killed.
        orders: how many there are.
        seed: of what is chosen.
    """

    def __init__(self, processes: ShopProcesses, orders: int, seed: int) -> None:
        self._processes = processes
        self._random = Random(seed)
        least, each, most = _KILLS_PER_ORDERS
        self._pause = min(most, max(least, each * orders))
        self._at = self._next(0)
        self.killed: list[str] = []

    def _next(self, events: int) -> int:
        return events + self._random.randint(self._pause // 2, self._pause)

    def look(self, events: int) -> str | None:
        """Kill one, if it is time; its name.

        Args:
            events: how many have come so far.
        """
        if events < self._at:
            return None
        self._at = self._next(events)
        name = self._random.choice(self._processes.names)
        self._processes.kill(name)
        self.killed.append(name)
        return name


def _target(name: str) -> str:
    return f"{example_file(f'shop/{name}.py')}:topology"


def _with_id(settings: Mapping[str, object], service: str = "") -> dict[str, object]:
    return {**settings, "application.id": application_id(service) if service else APPLICATION_ID}


def _failed(name: str, why: str) -> StreamsStoppedError:
    return StreamsStoppedError("SERVICE_FAILED", f"{name} of the shop failed: {why}")
