"""The programs of docs/patterns.md run, in one namespace, and its command lines are those that `hayase` has."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from typer.core import TyperGroup
from typer.main import get_command

from hayase.cli.main import app, run_cli

PAGE = Path(__file__).resolve().parents[2] / "docs" / "patterns.md"


def test_the_programs_of_the_page_run_and_come_out_as_they_say(monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    assert len(blocks) >= 7
    module = ModuleType("page_of_patterns")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), module.__dict__)


def commands_of_the_page() -> list[str]:
    """The command lines of the blocks that are marked text, without comments and prompts."""
    blocks = re.findall(r"^```text\n(.*?)^```$", PAGE.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    lines = "".join(blocks).replace("\\\n", " ").splitlines()
    return [line.removeprefix("$ ") for line in lines if line.removeprefix("$ ").startswith("hayase ")]


@pytest.mark.parametrize("line", commands_of_the_page())
def test_the_command_lines_of_the_page_are_understood(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(PAGE.parents[1])
    words = [word for word in shlex.split(line, comments=True) if word != "&"]
    command: Any = get_command(app)
    context = command.make_context(words[0], words[1:])  # raises for what it does not have
    while isinstance(command, TyperGroup):
        name, command, rest = command.resolve_command(context, [*context._protected_args, *context.args])
        context = command.make_context(name, rest, parent=context)
        command = context.command
    assert context.params


OTHER = """
from dataclasses import dataclass

from hayase.patterns import Decider, EventSourced


@dataclass
class Reserve:
    order: str


@dataclass
class Release:
    order: str


@dataclass
class Ship:
    item: str


@dataclass
class Done:
    what: str


def decide(command: {commands}, done: bool) -> list[Done]:
    return []


def evolve(done: bool, event: Done) -> bool:
    return True


first, *others = [EventSourced(name, Decider(False, decide, evolve)) for name in {names}]
topology = first.topology(*others)
"""


def test_the_commands_that_describe_programs_of_the_page_find_nothing_amiss(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    program = "\n".join(re.findall(r"^```python\n(.*?)^```$", PAGE.read_text("utf-8"), re.DOTALL | re.MULTILINE))
    (tmp_path / "orders.py").write_text(f"{program}\ntopology = order.topology(checkout)\n")
    (tmp_path / "stock.py").write_text(OTHER.format(commands="Reserve | Release", names=["stock", "goods"]))
    (tmp_path / "payments.py").write_text(OTHER.format(commands="Ship", names=["shipping"]))
    lines = [line for line in commands_of_the_page() if line.startswith("hayase describe ")]
    assert len(lines) == 3
    for line in lines:
        monkeypatch.chdir(PAGE.parents[1] if "examples/" in line else tmp_path)
        assert run_cli(shlex.split(line)[1:]) == 0, capsys.readouterr()
        assert "order" in capsys.readouterr().out
