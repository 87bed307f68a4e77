"""The check that code of the user can be called as it will be called, before the first record."""

from __future__ import annotations

import inspect
from collections.abc import Sequence

from hayase.core.call_site import place_of_function
from hayase.core.errors import TopologyError


def check_takes(function: object, arguments: Sequence[str], what: str, node: str) -> None:
    """Check that a function, or a method of an object, takes these positional arguments.

    Args:
        function: of the user; a method is bound.
        arguments: names of what it is called with.
        what: of the user it is, e.g. `process of the processor Prices`.
        node: of the function, for the error.

    Raises:
        TopologyError: `INVALID_FUNCTION`, with the line of the function.
    """
    wanted = f"{what} is called with ({', '.join(arguments)})"
    if not callable(function):
        raise TopologyError("INVALID_FUNCTION", f"{wanted}; {function!r} is no function", node=node)
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # a builtin that does not tell
        return
    try:
        signature.bind(*arguments)
    except TypeError as error:
        raise TopologyError(
            "INVALID_FUNCTION",
            f"{wanted}, which {_shown(function)} does not take: it is defined with {signature}; "
            f"define it with ({', '.join((*_self(function), *arguments))})",
            line=place_of_function(function),
            node=node,
        ) from error


def _shown(function: object) -> str:
    return getattr(function, "__qualname__", None) or type(function).__qualname__


def _self(function: object) -> tuple[str, ...]:
    return ("self",) if inspect.ismethod(function) else ()
