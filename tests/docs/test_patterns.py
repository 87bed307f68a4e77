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

from hayase.cli.main import app

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
