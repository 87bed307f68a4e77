"""A worker of connectors in a process of its own, `hayase connect`, as tests start and kill it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

import httpx2

from hayase.core.failpoints import VARIABLE

_START_S = 300.0


class WorkerProcess:
    """A worker with its connectors; it runs until it is killed, or kills itself at a failpoint.

    Args:
        folder: for its files; each start writes new ones.
        options: where its topics are, and its settings.
        connectors: configurations by name.
    """

    def __init__(self, folder: Path, options: Sequence[str], connectors: Mapping[str, Mapping[str, str]]) -> None:
        self._folder = folder
        self._files = [folder / f"{name}.json" for name in connectors]
        for file, config in zip(self._files, connectors.values(), strict=True):
            file.write_text(json.dumps({"name": file.stem, "config": dict(config)}))
        self._command = [sys.executable, "-m", "hayase", "connect", *map(str, self._files)]
        self._command += ["--listen", "http://127.0.0.1:0", *options]
        self._process: subprocess.Popen[str] | None = None
        self._url = ""
        self._starts = 0
        self._token = folder / "token"
        self._answers = threading.Event()

    def start(self, failpoint: str | None = None, action: str = "kill_worker", bundle: str | None = None) -> None:
        """Start, with a failpoint that acts once, in one task if that is given; returns at once."""
        self._starts += 1
        environment = dict(os.environ)
        if failpoint is not None:
            self._token = self._folder / f"token-{self._starts}"
            armed = {"name": failpoint, "action": action, "token": str(self._token)}
            environment[VARIABLE] = json.dumps([armed if bundle is None else {**armed, "bundle": bundle}])
        self._answers = threading.Event()
        self._process = subprocess.Popen(self._command, stderr=subprocess.PIPE, text=True, env=environment)
        threading.Thread(target=self._read, args=(self._process, self._answers), daemon=True).start()

    def _read(self, process: subprocess.Popen[str], answers: threading.Event) -> None:
        assert process.stderr is not None
        with (self._folder / "worker.log").open("a") as log:
            for line in process.stderr:
                log.write(line)
                log.flush()
                if "REST at " in line:
                    self._url = line.split("REST at ")[1].split()[0]
                    answers.set()
        answers.set()

    def wait_for_answer(self) -> bool:
        """Wait until it answers; `False`: it has ended."""
        assert self._answers.wait(_START_S), "the worker does not answer"
        return self.running

    @property
    def running(self) -> bool:
        """Whether its process runs."""
        return self._process is not None and self._process.poll() is None

    @property
    def reached(self) -> bool:
        """Whether the failpoint of the last start that had one has acted."""
        return self._token.exists()

    def ended_within(self, seconds: float) -> bool:
        """Wait for its end; whether it came, by SIGKILL."""
        assert self._process is not None
        try:
            status = self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        assert status == -signal.SIGKILL, (status, (self._folder / "worker.log").read_text()[-2000:])
        return True

    def kill(self) -> None:
        """Kill it, if it runs."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def states(self) -> dict[str, set[str]]:
        """States of each connector and its tasks."""
        found = httpx2.get(f"{self._url}/connectors?expand=status", timeout=30).json()
        return {
            name: {each["status"]["connector"]["state"], *(task["state"] for task in each["status"]["tasks"])}
            for name, each in found.items()
        }

    def failed(self) -> list[str]:
        """Connectors of which a task has failed, or the connector."""
        return [name for name, states in self.states().items() if "FAILED" in states]

    def restart(self, connector: str) -> None:
        """Restart what has failed of a connector."""
        url = f"{self._url}/connectors/{connector}/restart?includeTasks=true&onlyFailed=true"
        httpx2.post(url, timeout=60).raise_for_status()
