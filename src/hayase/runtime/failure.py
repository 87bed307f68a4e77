"""From Spark's account of a failure back to the error that a worker raised."""

from __future__ import annotations

import re

from hayase.core import errors
from hayase.core.errors import HayaseError

_RAISED = re.compile(r"hayase\.core\.errors\.(\w+): \[([A-Z_]+)\] (.*)")


def find_error(text: str) -> HayaseError | None:
    """The error named in a Python traceback inside the text; `None` if there is none of ours."""
    found = _RAISED.search(text)
    if found is None:
        return None
    cls = getattr(errors, found.group(1), HayaseError)
    message, context = _split_context(found.group(3).strip())
    error = cls(found.group(2), message)
    assert isinstance(error, HayaseError)
    error.context = context
    return error


def _split_context(text: str) -> tuple[str, dict[str, str]]:
    """Undo `HayaseError.__str__`: the message, and `name value` pairs in parentheses at the end."""
    found = re.fullmatch(r"(.*) \(([a-z_]+ [^()]*)\)", text)
    if found is None:
        return text, {}
    pairs = (item.partition(" ") for item in found.group(2).split(", "))
    return found.group(1), {name: value for name, _, value in pairs}
