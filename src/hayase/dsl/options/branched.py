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
    """One branch of a split: its name and what becomes of its stream. Kafka Streams' `Branched`.

    A branch's full name is that of the split followed by `name`; it names the node, and is the key of the branch in the
    dict that `default_branch` and `no_default_branch` give.

    Example:
        >>> from hayase import *
        >>> builder = StreamsBuilder()
        >>> split = builder.stream("orders").split(name="order-")
        >>> split = split.branch(lambda key, cents: cents > 1000, Branched.as_("large"))
        >>> split = split.branch(lambda key, cents: cents < 0, Branched.with_consumer(lambda bad: bad.to("refused")))
        >>> list(split.default_branch())
        ['order-large', 'order-0']

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
        """A branch of that name, whose stream is given as it is.

        Raises:
            TopologyError: `INVALID_NAME`.
        """
        return cls(name=check_name(name))

    @classmethod
    def with_function(cls, function: Callable[[KStream], KStream | None], name: str | None = None) -> Branched:
        """A branch whose stream is replaced by what a function makes of it.

        Args:
            function: called once, while the topology is built, with the stream of the branch. What it returns is given
                under the branch's name; `None`: the branch is left out of the dict.
            name: as in `as_`; `None`: the branch's position, from 1; `0` for the default branch.

        Raises:
            TopologyError: `INVALID_NAME`. What the function raises is raised by `branch` or `default_branch`.
        """
        return cls(name=name_of(name), function=function)

    @classmethod
    def with_consumer(cls, consumer: Callable[[KStream], None], name: str | None = None) -> Branched:
        """A branch whose stream goes to a consumer, for example to a topic, and is left out of the dict.

        Args:
            consumer: called once, while the topology is built, with the stream of the branch.
            name: as in `with_function`.

        Raises:
            TopologyError: `INVALID_NAME`. What the consumer raises is raised by `branch` or `default_branch`.
        """
        return cls(name=name_of(name), consumer=consumer)
