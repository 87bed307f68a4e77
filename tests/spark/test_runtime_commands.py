"""Three examples as one shared runtime, by the commands of the README, each in a process of its own."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

ROOT = Path(__file__).parents[2]
_WAIT_S = 180.0


class Terminal:
    """Commands in a folder with the examples, and homes of its own for data and state."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "examples").symlink_to(ROOT / "examples")
        homes = {f"XDG_{name}_HOME": str(folder / name.lower()) for name in ("DATA", "STATE")}
        self._environment = {**os.environ, **homes}

    def run(self, command: str, *, given: str | None = None) -> tuple[int, str]:
        """Exit code, and all that was said."""
        done = subprocess.run(
            self._line(command), input=given, capture_output=True, text=True, check=False, timeout=_WAIT_S,
            cwd=self.folder, env=self._environment,
        )  # fmt: skip
        return done.returncode, done.stdout + done.stderr

    def well(self, command: str, *, given: str | None = None) -> str:
        code, said = self.run(command, given=given)
        assert code == 0, f"{command}: {said}"
        return said

    @contextmanager
    def running(self, command: str) -> Iterator[Path]:
        """A command that goes on until Ctrl-C, and the file with what it says."""
        shown = self.folder / "shown.txt"
        with shown.open("w") as file, subprocess.Popen(
            self._line(command), stdout=file, stderr=file, start_new_session=True, cwd=self.folder,
            env=self._environment,
        ) as process:  # fmt: skip
            try:
                yield shown
                os.killpg(process.pid, signal.SIGINT)
                assert process.wait(_WAIT_S) == 0, shown.read_text()
            finally:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)

    def _line(self, command: str) -> list[str]:
        program, *arguments = shlex.split(command)
        assert program == "hayase"
        return [sys.executable, "-m", "hayase", *arguments]


def _until(holds: Callable[[], bool], shown: Path) -> None:
    deadline = time.monotonic() + _WAIT_S
    while not holds():
        assert time.monotonic() < deadline, shown.read_text()
        time.sleep(0.5)


def test_three_examples_run_as_one_runtime_by_the_commands_of_the_readme(tmp_path: Path) -> None:
    readme = (ROOT / "README.md").read_text("utf-8")
    block = re.search(r"```\n(hayase runtime run.*?)```", readme, re.DOTALL)
    assert block is not None
    run, status, pause, resume, replace, remove = block[1].splitlines()
    terminal = Terminal(tmp_path)
    for line in re.findall(r"^hayase topics create .*$", readme, re.MULTILINE):
        terminal.well(line)

    def buy(item: str, cents: int) -> None:
        terminal.well("hayase topics produce purchases", given=f'ada:{{"item": "{item}", "cents": {cents}}}\n')

    def spent() -> str:
        return terminal.well("hayase topics consume spending --from-beginning --stop-at-end")

    with terminal.running(run) as shown:
        _until(lambda: terminal.run(status)[1].count("\tRUNNING") == 3, shown)
        _until(lambda: shown.read_text().count("\tRUNNING\n") == 3, shown)
        buy("book", 1250)
        _until(lambda: '{"purchases":1,"cents":1250}' in spent(), shown)
        terminal.well(pause)
        assert "RUNNING, paused" in terminal.well(status)
        buy("pen", 300)
        terminal.well(resume)
        _until(lambda: '{"purchases":2,"cents":1550}' in spent(), shown)
        assert "quickstart was replaced" in terminal.well(replace)
        buy("cup", 450)
        _until(lambda: '{"purchases":3,"cents":2000}' in spent(), shown)
        terminal.well(remove)
        assert "runtime-orders" not in terminal.well(status)
        code, said = terminal.run("hayase runtime pause orders")
        assert code == 1 and "no topology 'orders'; it has ecommerce, quickstart [UNKNOWN_TOPOLOGY]" in said
        terminal.well("hayase topics produce purchases", given="ada:no JSON\n")
        _until(lambda: "the application failed: [DESERIALIZATION_FAILED]" in shown.read_text(), shown)
        said = terminal.well(status)
        assert "ecommerce\truntime-ecommerce\tRUNNING" in said and "quickstart\truntime-quickstart\tERROR" in said
        assert "topic purchases, partition" in said, "the error says where"
        _until(lambda: "quickstart\truntime-quickstart\tERROR: " in shown.read_text(), shown)
    assert shown.read_text().endswith("stopped\n")
    code, said = terminal.run(status)
    assert (code, said) == (3, "runtime 'runtime' is not running\n")
