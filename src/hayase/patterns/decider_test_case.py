"""Tests of deciders without a driver: given events, when a command, then events or a rejection."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Generic, Self

from hayase.patterns.decider import C, Decider, E, Rejected, S


class DeciderTestCase(Generic[C, E, S]):
    """A test of a decider, read as a sentence.

    Example:
        >>> from dataclasses import dataclass
        >>> @dataclass
        ... class Open:
        ...     owner: str
        >>> @dataclass
        ... class Opened:
        ...     owner: str
        >>> def decide(command: Open, owner: str | None) -> list[Opened] | Rejected:
        ...     return Rejected(f"it is {owner}'s") if owner else [Opened(command.owner)]
        >>> account = Decider(None, decide, lambda owner, event: event.owner)
        >>> DeciderTestCase(account).when(Open("ada")).then(Opened("ada")).then_state("ada")
        >>> DeciderTestCase(account).given(Opened("ada")).when(Open("bob")).then_rejected("it is ada's")
    """

    def __init__(self, decider: Decider[C, E, S]) -> None:
        self._decider = decider
        self._given: list[E] = []
        self._decided: Sequence[E] | Rejected | None = None
        self._decisions = 0

    def given(self, *events: E) -> Self:
        """Events that have happened before."""
        self._given += events
        return self

    def when(self, command: C) -> Self:
        """The command that is decided, once for each test."""
        assert not self._decisions, "a test case has one `when`; give what happened before as `given`"
        self._decisions += 1
        self._decided = self._decider.decide(command, self._decider.fold(self._given))
        return self

    def then(self, *events: E) -> Self:
        """Exactly these events, in this order; none if nothing is given."""
        assert not isinstance(self._checked(), Rejected), f"it was rejected: {self._decided}; expected {list(events)}"
        assert self._events() == list(events), f"it decided {self._events()}; expected {list(events)}"
        return self

    def then_rejected(self, reason: str | None = None) -> None:
        """The command was rejected, for this reason if one is given."""
        decided = self._checked()
        assert isinstance(decided, Rejected), f"it decided {self._events()}; expected a rejection"
        assert reason is None or decided.reason == reason, (
            f"it was rejected for {decided.reason!r}; expected {reason!r}"
        )

    def then_state(self, state: S) -> None:
        """The state after what was given, and the events of the command."""
        assert not self._decisions or not isinstance(self._decided, Rejected), f"it was rejected: {self._decided}"
        folded = self._decider.fold([*self._given, *self._events()])
        assert folded == state, f"the state is {folded!r}; expected {state!r}"

    def _checked(self) -> Sequence[E] | Rejected | None:
        assert self._decisions, "nothing was decided: `when` is missing"
        return self._decided

    def _events(self) -> list[Any]:
        return [] if isinstance(self._decided, Rejected) else list(self._decided or ())
