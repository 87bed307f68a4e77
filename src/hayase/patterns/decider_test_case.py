"""Tests of deciders without a driver: given events, when a command, then events or a rejection."""

from __future__ import annotations

import typing
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, Literal, Self

from hayase.core.errors import TopologyError
from hayase.patterns.decider import C, Decider, E, Rejected, S
from hayase.patterns.type_names import hints_of


class DeciderTestCase(Generic[C, E, S]):
    """A test of a decider, read as a sentence.

    Values that are no commands or no events of the decider are a `TypeError`, also those that it decides.

    Args:
        decider: what is tested.
        commands: types of commands; default: those that `decide` is annotated with. Without either, any are taken.
        events: types of events; default: those that `evolve` is annotated with. Without either, any are taken.

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

    def __init__(
        self,
        decider: Decider[C, E, S],
        *,
        commands: Sequence[object] | None = None,
        events: Sequence[object] | None = None,
    ) -> None:
        self._decider = decider
        self._commands = _classes(decider.decide, 0, "commands") if commands is None else tuple(commands)
        self._event_types = _classes(decider.evolve, 1, "events") if events is None else tuple(events)
        self._given: list[E] = []
        self._decided: Sequence[E] | Rejected | None = None
        self._decisions = 0

    def given(self, *events: E) -> Self:
        """Events that have happened before.

        Raises:
            TypeError: one is no event of the decider.
        """
        self._check_events("given", events)
        self._given += events
        return self

    def when(self, command: C) -> Self:
        """The command that is decided, once for each test.

        Raises:
            TypeError: it is no command of the decider, or the decider gives something else than its events.
        """
        _check("when", command, "command", self._commands)
        assert not self._decisions, "a test case has one `when`; give what happened before as `given`"
        self._decisions += 1
        decided = self._decider.decide(command, self._decider.fold(self._given))
        self._decided = decided if isinstance(decided, Rejected) else list(decided or ())
        self._check_events("decide", self._events())
        return self

    def then(self, *events: E) -> Self:
        """Exactly these events, in this order; none if nothing is given.

        Raises:
            TypeError: one is no event of the decider.
        """
        self._check_events("then", events)
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

    def _check_events(self, where: str, events: Iterable[object]) -> None:
        for event in events:
            _check(where, event, "event", self._event_types)


def _classes(function: Callable[..., object], position: int, what: str) -> tuple[object, ...]:
    """The types that a parameter is annotated with; none if they are not known: then all values are taken."""
    try:
        return hints_of(function, position, what)
    except TopologyError:
        return ()


def _check(where: str, value: object, kind: Literal["command", "event"], hints: Sequence[object]) -> None:
    """Refuse what an aggregate would, which goes by the very type of a value."""
    allowed = [typing.get_origin(hint) or hint for hint in hints]
    if not allowed or Any in allowed or type(value) in allowed:
        return
    names = [each.__name__ if isinstance(each, type) else str(each) for each in allowed]
    own = type(value).__name__
    if own in names:  # of another module: names alone would not tell
        own, names = _full_name(type(value)), [_full_name(each) for each in allowed]
    got = "gave" if where == "decide" else "got"
    raise TypeError(
        f"{where} {got} {value!r:.200}, which is of the type {own} and no {kind} of this decider; its {kind}s are "
        f"{', '.join(names)}"
    )


def _full_name(value_type: object) -> str:
    return f"{value_type.__module__}.{value_type.__qualname__}" if isinstance(value_type, type) else str(value_type)
