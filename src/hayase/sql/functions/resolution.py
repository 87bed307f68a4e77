"""Overload resolution: which declaration takes the arguments of a call.

Exact types come first, implicit casts only if nothing takes the arguments as they are. Among several, one without
variadic parameter is preferred, then the one with more fixed parameters, then the one with fewer type variables.
"""

from __future__ import annotations

from collections.abc import Sequence

from hayase.sql.errors import StatementError
from hayase.sql.functions.declarations import Declaration
from hayase.sql.functions.matching import Match, match
from hayase.sql.functions.signatures import Anything, Argument, LambdaOf, Pattern, Variable


def resolve(
    name: str, overloads: Sequence[Declaration], arguments: Sequence[Argument], *, widen: bool
) -> tuple[Declaration, Match]:
    """The declaration that a call means and how it takes the arguments; a `StatementError` if it is none or unclear."""
    for allow_casts in (False, True) if widen else (False,):
        candidates = [
            (overload, found)
            for overload in overloads
            if (found := match(overload.signature, arguments, allow_casts)) is not None
        ]
        if not candidates:
            continue
        candidates.sort(key=_rank, reverse=True)
        if len(candidates) > 1 and _rank(candidates[0]) == _rank(candidates[1]):
            raise StatementError(
                "AMBIGUOUS_FUNCTION",
                f"Function '{overloads[0].name}' cannot be resolved due to ambiguous method parameters "
                f"({_argument_text(arguments)}).\n{_alternatives(overloads)}",
            )
        return candidates[0]
    raise StatementError(
        "NO_MATCHING_FUNCTION",
        f"Function '{overloads[0].name}' does not accept parameters ({_argument_text(arguments)}).\n"
        f"{_alternatives(overloads)}\nFor detailed information on a function run: DESCRIBE FUNCTION {name.upper()};",
    )


def _rank(candidate: tuple[Declaration, Match]) -> tuple[int, ...]:
    overload, found = candidate
    fixed = sum(not parameter.variadic for parameter in overload.signature.parameters)
    generic = sum(_is_generic(parameter.pattern) for parameter in found.parameters)
    return (not overload.signature.variadic, fixed, -generic)


def _is_generic(pattern: Pattern) -> bool:
    if isinstance(pattern, Variable | Anything | LambdaOf):
        return True
    parts = [getattr(pattern, part, None) for part in ("item", "key", "value")]
    return any(isinstance(part, Pattern) and _is_generic(part) for part in parts)


def _argument_text(arguments: Sequence[Argument]) -> str:
    return ", ".join("null" if argument is None else str(argument) for argument in arguments)


def _alternatives(overloads: Sequence[Declaration]) -> str:
    lines = [f"{one.name}({', '.join(map(str, one.signature.parameters))})" for one in overloads]
    return "\n".join(["Valid alternatives are:", *lines])
