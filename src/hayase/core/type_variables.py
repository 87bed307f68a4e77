"""Type variables of the public generic classes.

With defaults, for type checkers: `KStream` alone is `KStream`, and what a call leaves open is `Any`. Those of
option objects are `Never` instead: an option object that says nothing about a type fits everywhere and leaves it open.
"""

from __future__ import annotations

import typing
from typing import TYPE_CHECKING, Any, Never

if TYPE_CHECKING:
    from typing_extensions import TypeVar  # comes with every type checker; typing has defaults from Python 3.13 on
else:

    def TypeVar(name: str, *, default: object, covariant: bool = False) -> Any:  # noqa: N802 - takes the class's place
        """A type variable; its default is not asked for at run time."""
        return typing.TypeVar(name, covariant=covariant)


T = TypeVar("T", default=Any)
"""Type of values, without keys."""
K = TypeVar("K", default=Any)
"""Type of keys."""
V = TypeVar("V", default=Any)
"""Type of values."""
VO = TypeVar("VO", default=Any)
"""Type of another stream's or table's values."""
KR = TypeVar("KR", default=Any)
"""Type of the keys that a function gives."""
VR = TypeVar("VR", default=Any)
"""Type of the values that a function gives."""
R = TypeVar("R", default=Any)
"""Type of the answers to a query."""

K_co = TypeVar("K_co", default=Never, covariant=True)
"""Type of an option object's keys."""
V_co = TypeVar("V_co", default=Never, covariant=True)
"""Type of an option object's values."""
VO_co = TypeVar("VO_co", default=Never, covariant=True)
"""Type of the right values of a join's option object."""
KN = TypeVar("KN", default=Never)
"""Type of the keys that an option object is made for."""
VN = TypeVar("VN", default=Never)
"""Type of the values that an option object is made for."""
VON = TypeVar("VON", default=Never)
"""Type of the right values that an option object is made for."""
