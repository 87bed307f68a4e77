"""Declarations of functions: the decorators `scalar`, `table` and `aggregate`, and what they note.

A decorator notes its declaration under the module that it stands in; a registry takes the declarations of the modules
that it loads. Nothing else is global.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from typing import Any, TypeVar

from hayase.sql.functions.signatures import Signature, parse_signature
from hayase.sql.types.sql_types import SqlType

F = TypeVar("F", bound=Callable[..., Any])
Returns = Callable[[Sequence[SqlType | None]], SqlType]
"""Computes the type of a result from the types of the arguments, as the function gets them."""


class FunctionKind(Enum):
    """Kinds of functions."""

    SCALAR = "SCALAR"
    TABLE = "TABLE"
    AGGREGATE = "AGGREGATE"


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """One overload of a function.

    Attributes:
        name: as messages show it; it is looked up in any case.
        target: the function, or an aggregate's class.
        text: the signature as written, for the reference.
        returns: computes the type of the result, where the signature says `?`.
        null_aware: it is called with nulls too; otherwise a null argument gives null without a call.
        pure: the same arguments always give the same result.
        settings: the function takes the settings of the session as its first argument.
        types: the function takes the tuple of its arguments' types as its first argument, behind the settings.
        lazy: the function takes thunks: callables without arguments that give the values.
        literals: positions of arguments that must be literals.
        columns: the same function of Polars expressions, where whole numbers, dates and times have 64 bits. It is total
            over values that are not null, or returns a pair: the values, and where the row form has to decide.
        checked: it is of a user: what it returns may be of another type than it says.
    """

    kind: FunctionKind
    name: str
    signature: Signature
    text: str
    description: str
    target: Callable[..., Any] = field(hash=False)  # a user's object may have no hash
    returns: Returns | None = field(default=None, hash=False)
    null_aware: bool = False
    pure: bool = True
    settings: bool = False
    types: bool = False
    lazy: bool = False
    literals: tuple[int, ...] = ()
    columns: Callable[..., Any] | None = None
    checked: bool = False


_DECLARED: dict[str, list[Declaration]] = {}


def declared_in(module: str) -> Sequence[Declaration]:
    """The declarations that stand in a module, which has been imported."""
    return tuple(_DECLARED.get(module, ()))


def _declare(
    module: str, kind: FunctionKind, name: str, text: str, description: str, **options: Any
) -> Callable[[F], F]:
    signature = parse_signature(text)
    if (signature.result is None) != (options.get("returns") is not None):
        raise ValueError(f"function {name}: signature {text!r} and `returns=` go together: `-> ?` where it is given")

    def note(target: F) -> F:
        declaration = Declaration(
            kind=kind,
            name=name,
            signature=signature,
            text=text,
            description=description,
            target=target,
            **options,
        )
        declared = _DECLARED.setdefault(module, [])
        position = len(declared)
        # Decorators of one function are applied from the lowest up, and alternatives are listed as they are written.
        while position and declared[position - 1].target is target:
            position -= 1
        declared.insert(position, declaration)
        return target

    return note


def _caller() -> str:
    return str(sys._getframe(2).f_globals["__name__"])


def scalar(
    name: str,
    signature: str,
    description: str = "",
    *,
    returns: Returns | None = None,
    null_aware: bool = False,
    pure: bool = True,
    settings: bool = False,
    types: bool = False,
    lazy: bool = False,
    literals: tuple[int, ...] = (),
    columns: Callable[..., Any] | None = None,
    checked: bool = False,
) -> Callable[[F], F]:
    """Declares an overload of a scalar function; the options are those of `Declaration`."""
    return _declare(
        _caller(),
        FunctionKind.SCALAR,
        name,
        signature,
        description,
        returns=returns,
        null_aware=null_aware,
        pure=pure,
        settings=settings,
        types=types,
        lazy=lazy,
        literals=literals,
        columns=columns,
        checked=checked,
    )


def table(
    name: str,
    signature: str,
    description: str = "",
    *,
    returns: Returns | None = None,
    null_aware: bool = False,
    pure: bool = True,
    types: bool = False,
    checked: bool = False,
) -> Callable[[F], F]:
    """Declares an overload of a table function, which returns a list; the signature's result is the type of an item."""
    return _declare(
        _caller(),
        FunctionKind.TABLE,
        name,
        signature,
        description,
        returns=returns,
        null_aware=null_aware,
        pure=pure,
        types=types,
        checked=checked,
    )


def aggregate(
    name: str, signature: str, description: str = "", *, returns: Returns | None = None, checked: bool = False
) -> Callable[[F], F]:
    """Declares an overload of an aggregate function: a class, as `BoundAggregate` says."""
    return _declare(_caller(), FunctionKind.AGGREGATE, name, signature, description, returns=returns, checked=checked)


# What functions of an application do is not known: an epoch that is replayed must not call them again.
udf = partial(scalar, pure=False, checked=True)
udtf = partial(table, pure=False, checked=True)
udaf = partial(aggregate, checked=True)
