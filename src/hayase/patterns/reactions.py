"""Reactions to events: commands for other aggregates, at once or at a deadline."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Generic

from hayase.core.errors import SerializationError, TopologyError
from hayase.patterns.decider import C
from hayase.patterns.type_names import TypeNames

if TYPE_CHECKING:
    from hayase.patterns.subject_keys import SubjectKeys


AGGREGATE_ID_MAX_BYTES = 4_000
"""Ids of commands, events and answers are made of it, and a record has several of those."""


@dataclass(frozen=True, slots=True)
class AggregateCommand:
    """A command for one aggregate, made by `CommandTarget.command`.

    Attributes:
        aggregate: the name of the aggregate.
        topic: of its commands.
        aggregate_id: which one.
        type: of the command.
        data: the command as JSON.
    """

    aggregate: str
    topic: str
    aggregate_id: str
    type: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Deadline:
    """A command that is sent later, made by `deadline`."""

    after: timedelta
    command: AggregateCommand


Reaction = AggregateCommand | Deadline
Reactions = Reaction | Sequence[Reaction] | None
"""What a reaction gives."""


def deadline(after: timedelta, command: AggregateCommand) -> Deadline:
    """A command that is sent when some time has passed: a timer in the engine.

    It goes by the wall clock of the epochs, is kept with the state of the aggregate, and fires late, but once, where
    the application was down meanwhile. It is not cancelled: the aggregate that gets the command decides, by its state,
    whether anything is to be done.

    Args:
        after: counted from the event that is reacted to; at least a millisecond.
        command: what is sent then.

    Raises:
        TopologyError: `INVALID_DURATION`.

    Example:
        >>> @order.on(OrderPlaced)  # doctest: +SKIP
        ... def expire(event, own):
        ...     return deadline(timedelta(minutes=30), order.command(own.id, Expire()))
    """
    if not isinstance(after, timedelta) or after < timedelta(milliseconds=1):
        raise TopologyError("INVALID_DURATION", f"deadline takes a timedelta of a millisecond or more, not {after!r}")
    return Deadline(after, command)


class CommandTarget(Generic[C]):
    """An aggregate as its senders know it: a name, a topic and types of commands.

    An `EventSourced` is one. For an aggregate of another application, of which only the commands are shared:
    `CommandTarget("stock", [Reserve, Release])`.

    Args:
        name: of the aggregate.
        commands: types that can be sent.
        topic: of its commands; default `<name>-commands`.
        keys: of the subjects, if commands have personal fields.
    """

    def __init__(
        self,
        name: str,
        commands: Sequence[type[C]],
        *,
        topic: str | None = None,
        keys: SubjectKeys | None = None,
    ) -> None:
        self.name = name
        self.keys = keys
        self.commands_topic = topic or f"{name}-commands"
        self.events_topic, self.replies_topic = f"{name}-events", f"{name}-replies"
        self.command_types = TypeNames("command", commands, {}, keys)

    def command(self, aggregate_id: str, command: C) -> AggregateCommand:
        """A command for one aggregate.

        Raises:
            SerializationError: `UNKNOWN_TYPE`: it is no command of this aggregate; `INVALID_AGGREGATE_ID`.
        """
        check_aggregate_id(aggregate_id)
        name = self.command_types.name_of(command)
        data = self.command_types.seal(name, command, aggregate_id)
        return AggregateCommand(self.name, self.commands_topic, aggregate_id, name, data)


def check_aggregate_id(aggregate_id: object) -> None:
    """Refuse what cannot be the id of an aggregate; raises SerializationError `INVALID_AGGREGATE_ID`."""
    if isinstance(aggregate_id, str) and aggregate_id and "\0" not in aggregate_id:
        if len(aggregate_id) <= AGGREGATE_ID_MAX_BYTES // 4:  # also if each character takes four bytes
            return
        if len(aggregate_id.encode(errors="replace")) <= AGGREGATE_ID_MAX_BYTES:
            return
    raise SerializationError(
        "INVALID_AGGREGATE_ID",
        f"{aggregate_id!r:.200} cannot be the id of an aggregate; give a text that is not empty, has no NUL in it, and "
        f"{AGGREGATE_ID_MAX_BYTES} bytes at most",
    )


@dataclass(frozen=True, slots=True)
class Reacting:
    """A reaction that was registered for a type of event."""

    event: type
    function: Callable[[Any, Any], Reactions]

    def run(self, event: object, own: object) -> tuple[Reaction, ...]:
        """What it gives, as a sequence.

        Raises:
            TopologyError: `INVALID_REACTION`: it gives something else.
        """
        given = self.function(event, own)
        if given is None:
            return ()
        reactions = tuple(given) if isinstance(given, Iterable) else (given,)
        for each in reactions:
            if not isinstance(each, AggregateCommand | Deadline):
                raise TopologyError(
                    "INVALID_REACTION",
                    f"the reaction {getattr(self.function, '__qualname__', self.function)!r} gave {each!r:.200}; a "
                    "reaction gives what `order.command(id, …)` and `deadline(after, …)` make, one or several, or None",
                )
        return reactions
