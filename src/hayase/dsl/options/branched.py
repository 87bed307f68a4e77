"""`Branched`: one exit of a split."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hayase.core.names import check_name
from hayase.dsl.options.options import name_of

if TYPE_CHECKING:
    from hayase.dsl.kstream import KStream


@dataclass(frozen=True, slots=True)
class Branched:
    """One exit of a split.

    Attributes:
        name: ends the branch's name (after that of the split); `None`: its position, from 1; `0` for the default
            branch.
        function: applied to the branch; its result takes the branch's place in the answer, `None` leaves it out.
        consumer: called with the branch, which is then left out of the answer.
    """

    name: str | None = None
    function: Callable[[KStream], KStream | None] | None = None
    consumer: Callable[[KStream], None] | None = None

    @classmethod
    def as_(cls, name: str) -> Branched:
        """Only a name."""
        return cls(name=check_name(name))

    @classmethod
    def with_function(cls, function: Callable[[KStream], KStream | None], name: str | None = None) -> Branched:
        """A function of the branch."""
        return cls(name=name_of(name), function=function)

    @classmethod
    def with_consumer(cls, consumer: Callable[[KStream], None], name: str | None = None) -> Branched:
        """A consumer of the branch."""
        return cls(name=name_of(name), consumer=consumer)
