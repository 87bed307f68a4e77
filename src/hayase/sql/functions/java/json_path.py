"""Paths such as `$.a['b'][0].c` into JSON, as EXTRACTJSONFIELD takes them."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from hayase.sql.errors import FunctionError

_STEP = re.compile(
    r"""\.(?P<name>[^.\[\]]+)              # .name
      | \[(?P<index>-?\d+)\]               # [0]
      | \['(?P<single>(?:[^'\\]|\\.)*)'\]  # ['any name']
      | \["(?P<double>(?:[^"\\]|\\.)*)"\]""",
    re.VERBOSE,
)
_ESCAPED = re.compile(r"\\(.)")


@lru_cache(maxsize=1024)
def path_steps(path: str) -> tuple[str | int, ...]:
    """The steps of a path: names, and positions from 0."""
    if not path.startswith("$"):
        raise FunctionError("BAD_JSON_PATH", f"JSON path {path!r} must start with $")
    steps: list[str | int] = []
    position = 1
    while position < len(path):
        found = _STEP.match(path, position)
        if found is None:
            raise FunctionError("BAD_JSON_PATH", f"JSON path {path!r} cannot be read at position {position + 1}")
        if found["index"] is not None:
            steps.append(int(found["index"]))
        elif found["name"] is not None:
            steps.append(found["name"])
        else:
            steps.append(_ESCAPED.sub(r"\1", found["single"] if found["single"] is not None else found["double"]))
        position = found.end()
    return tuple(steps)


MISSING = object()


def value_at(node: Any, path: str) -> Any:
    """What stands at a path, or `MISSING`."""
    for step in path_steps(path):
        if isinstance(node, list):
            index = _index(step)
            if index is None or not 0 <= index < len(node):
                return MISSING
            node = node[index]
        elif isinstance(node, dict):
            name = str(step)
            if name not in node:
                return MISSING
            node = node[name]
        else:
            return MISSING
    return node


def _index(step: str | int) -> int | None:
    if isinstance(step, int):
        return step
    return int(step) if step.isascii() and step.isdigit() else None
