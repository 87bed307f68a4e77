"""The list of failpoints, which tests kill processes at, is that of the program."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from hayase.core import failpoints

SOURCE = Path(failpoints.__file__).parents[1]


def reached() -> Iterator[str]:
    """The names with which the program says that a failpoint is reached."""
    for path in SOURCE.rglob("*.py"):
        text = path.read_text("utf-8")
        for call in ast.walk(ast.parse(text)) if "reach(" in text else ():
            if not isinstance(call, ast.Call) or not call.args:
                continue
            called = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
            if called in ("reach", "_reach"):
                constants = (each.value for each in ast.walk(call.args[0]) if isinstance(each, ast.Constant))
                yield from (value for value in constants if isinstance(value, str))


def test_every_failpoint_that_is_reached_is_listed_once_and_every_one_that_is_listed_is_reached() -> None:
    tuples = [value for name, value in vars(failpoints).items() if name == "NAMES" or name.endswith("_NAMES")]
    listed = [name for names in tuples for name in names]
    assert len(listed) == len(set(listed))
    assert set(listed) == set(reached())
