"""Deciders: the decisions of an aggregate as pure functions (Chassaing's functional event sourcing)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

C = TypeVar("C")
"""Commands of an aggregate: one type, or a union."""
E = TypeVar("E")
"""Events of an aggregate: one type, or a union."""
S = TypeVar("S")
"""State of an aggregate."""


@dataclass(frozen=True, slots=True)
class Rejected:
    """The answer of `decide` to a command that the rules of the domain do not allow. No event is recorded.

    Attributes:
        reason: for the sender, in its reply; a text.

    Raises:
        TypeError: the reason is no text: `decide` raises this, so its command fails.
    """

    reason: str

    def __post_init__(self) -> None:
        given: object = self.reason
        if not isinstance(given, str):
            raise TypeError(
                f"the reason of Rejected is a text, not a {type(given).__name__}; give e.g. Rejected(str(error))"
            )


@dataclass(frozen=True)
class Decider(Generic[C, E, S]):
    """Three pure functions that say what an aggregate does; nothing else is known of it.

    Commands and events are dataclasses, `msgspec.Struct`s or Pydantic models, or unions of these; a state may also be
    `None` and what JSON has. The types are read from the annotations of the functions: commands from the first
    parameter of `decide`, the state from the first and events from the second of `evolve`.

    Attributes:
        initial: the state before the first event.
        decide: `(command, state)` gives the events that happen, in order: none if there is nothing to do; or
            `Rejected`. It must not change the state.
        evolve: `(state, event)` gives the state after an event. It never refuses: what is recorded has happened.

    Example:
        >>> from dataclasses import dataclass
        >>> @dataclass
        ... class Deposit:
        ...     cents: int
        >>> @dataclass
        ... class Deposited:
        ...     cents: int
        >>> def decide(command: Deposit, balance: int) -> list[Deposited] | Rejected:
        ...     return [Deposited(command.cents)] if command.cents > 0 else Rejected("a deposit is positive")
        >>> def evolve(balance: int, event: Deposited) -> int:
        ...     return balance + event.cents
        >>> account = Decider(0, decide, evolve)
        >>> account.run(Deposit(5), account.fold([Deposited(1)]))
        ([Deposited(cents=5)], 6)
    """

    initial: S
    decide: Callable[[C, S], Sequence[E] | Rejected | None]
    evolve: Callable[[S, E], S]

    def fold(self, events: Sequence[E], state: S | None = None) -> S:
        """The state after events; from `initial` on, or from another state."""
        folded: Any = self.initial if state is None else state
        for event in events:
            folded = self.evolve(folded, event)
        result: S = folded
        return result

    def run(self, command: C, state: S) -> tuple[list[E] | Rejected, S]:
        """What a command does in a state: its events, or the rejection; and the state after it."""
        decided = self.decide(command, state)
        if isinstance(decided, Rejected):
            return decided, state
        events = list(decided or ())
        return events, self.fold(events, state) if events else state
