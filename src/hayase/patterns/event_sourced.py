"""`EventSourced`: an aggregate as a part of a topology."""

from __future__ import annotations

import hashlib
import re
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from hayase.core.errors import TopologyError
from hayase.dsl import Consumed, KStream, Produced, StreamsBuilder
from hayase.patterns.aggregate_processor import AggregateSupplier, FailedCommand, FailureHandler
from hayase.patterns.decider import C, Decider, S
from hayase.patterns.event_index import EventDecoder, IndexSupplier
from hayase.patterns.outgoing import MAX_BYTES, OutgoingSerde, reply_partition
from hayase.patterns.reactions import CommandTarget, Reacting, Reactions
from hayase.patterns.recorded_events import RecordedEvent, Upcaster, upcast
from hayase.patterns.relations import check_relations
from hayase.patterns.sent_commands import sent_commands
from hayase.patterns.state_rows import AggregateState, StateSerde
from hayase.patterns.type_names import TypeNames, hints_of, type_sequence
from hayase.processor.handlers import HandlerAnswer
from hayase.processor.timestamps import wall_clock_timestamp
from hayase.serde import Serdes
from hayase.topology.topology import Topology

if TYPE_CHECKING:
    from hayase.patterns.saga.saga import Saga
    from hayase.patterns.subject_keys import SubjectKeys

E_contra = TypeVar("E_contra", contravariant=True)
"""Events of an aggregate: contravariant, so that `on` takes each of them and no other."""

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9._-]*")

__all__ = ["EventSourced", "FailedCommand", "go_on"]


def go_on(failed: FailedCommand, error: Exception) -> HandlerAnswer:
    """Reply that the command failed, and go on with the next: the default."""
    return HandlerAnswer.CONTINUE


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of an aggregate: how long ids of commands are remembered, and how large values may be."""

    deduplication_ms: int
    max_bytes: int


class EventSourced(CommandTarget[C], Generic[C, E_contra, S]):
    """An aggregate: commands in, events and replies out, and the state of each aggregate in a store.

    `add_to` a builder makes it a part of a topology, with these topics and stores:

    * `<name>-commands` → `<name>-events`, `<name>-replies`; commands without an id or a readable key go to
      `<name>-dead-letters`;
    * `<name>-state`: id → `AggregateState`, the snapshot; `<name>-events-index`: where each event is, one epoch later.

    Commands of one aggregate are decided one after the other, in the order of its partition; events, state, reply and
    the commands of reactions are of one epoch. A command counts once: a repeat of its id within
    `deduplication_window`, by the wall clock of the epochs, gets the stored reply; one that failed or was invalid has
    done nothing, and a repeat is tried again.

    Args:
        name: of the aggregate; letters, digits, `.`, `_` and `-`.
        decider: what it does.
        commands: types of commands; default: those that `decide` is annotated with.
        events: types of events; default: those that `evolve` is annotated with.
        states: types of the state; default: those that `evolve` is annotated with.
        renamed: former names of commands and events → the types that they are now.
        upcasters: `(type, version)` → a function from the fields of an event of that version to those of the next. The
            highest version of a type, plus one, is the one that is written; without upcasters it is 1.
        state_version: of the states; raise it if old ones do not count any more, then have them rebuilt from the events
            by `hayase events rebuild`.
        deduplication_window: how long ids of commands and their replies are kept.
        max_bytes: the size of a command or an event, at most.
        failure_handler: asked when `decide`, `evolve` or a reaction raises: CONTINUE replies `failed` and goes on
            (default), DEAD_LETTER also writes the command to the dead letters, FAIL stops the application.
        keys: of the subjects of personal fields; see `Personal`.
        unknown_events: what happens in a replay with an event of an unknown type: `fail`, or `skip` it.
        refusals: types of events that tell senders that their command was refused. A topology that sends commands to
            the aggregate, by reactions or sagas, and answers such an event nowhere, is refused when it is built.

    Raises:
        TopologyError: `INVALID_NAME`, `INVALID_TYPES`, `INVALID_DURATION`, `INVALID_UPCASTER`,
            `INVALID_PERSONAL_FIELD`.

    Example:
        >>> order = EventSourced("order", Decider(None, decide, evolve))  # doctest: +SKIP
        >>> topology = order.topology()  # doctest: +SKIP
    """

    def __init__(
        self,
        name: str,
        decider: Decider[C, E_contra, S],
        *,
        commands: Sequence[object] | None = None,
        events: Sequence[object] | None = None,
        states: Sequence[object] | None = None,
        renamed: Mapping[str, type] | None = None,
        upcasters: Mapping[tuple[str, int], Upcaster] | None = None,
        state_version: int = 1,
        deduplication_window: timedelta = timedelta(hours=1),
        max_bytes: int = MAX_BYTES,
        failure_handler: FailureHandler = go_on,
        keys: SubjectKeys | None = None,
        unknown_events: Literal["fail", "skip"] = "fail",
        refusals: Sequence[type[E_contra]] = (),
    ) -> None:
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise TopologyError(
                "INVALID_NAME",
                f"{name!r} cannot name an aggregate; use letters, digits, '.', '_' and '-', a letter first",
            )
        renamed = dict(renamed or {})
        command_hints = type_sequence(commands, partial(hints_of, decider.decide, 0, "commands"))
        event_hints = type_sequence(events, partial(hints_of, decider.evolve, 1, "events"))
        state_hints = type_sequence(states, partial(hints_of, decider.evolve, 0, "states"))
        super().__init__(name, [], keys=keys)
        self.decider = decider
        self.command_types = TypeNames("command", command_hints, renamed, keys)
        self.event_types = TypeNames("event", event_hints, renamed, keys)
        self.state_types = TypeNames("state", state_hints, {}, keys)
        _check_renamed(renamed, self.command_types, self.event_types)
        self.dead_letters_topic = f"{name}-dead-letters"
        self.state_store, self.index_store = f"{name}-state", f"{name}-events-index"
        self.state_version = state_version
        self.limits = Limits(_window_ms(deduplication_window), max_bytes)
        self.failure_handler = failure_handler
        self.skips_unknown_events = unknown_events == "skip"
        self.reactions: list[Reacting] = []
        self.refusals = frozenset(self._name_of_refusal(each) for each in refusals)
        self._upcasters = dict(upcasters or {})
        self.data_versions = _data_versions(self._upcasters, self.event_types)
        self._initial_type = self.state_types.name_of(decider.initial)
        self._initial = self.state_types.encode(self._initial_type, decider.initial)

    @property
    def topics(self) -> tuple[str, ...]:
        """All topics of the aggregate."""
        return self.commands_topic, self.events_topic, self.replies_topic, self.dead_letters_topic

    @property
    def keys_of_commands(self) -> tuple[SubjectKeys, ...]:
        """By which personal fields are encrypted: its own, and those of addressees that its reactions name."""
        targets = [target for each in self.reactions for target, _ in sent_commands(each.function).commands]
        every = [self.keys, *(target.keys for target in targets)]
        return tuple({id(keys): keys for keys in every if keys is not None}.values())

    def on(
        self, event: type[E_contra]
    ) -> Callable[[Callable[[Any, AggregateState[S]], Reactions]], Callable[[Any, AggregateState[S]], Reactions]]:
        """Register a reaction: a function from an event, and the state of its aggregate after it, to commands.

        It runs in the epoch that records the event, once, and what it gives is sent with it: nothing of both, or all.
        It may do nothing else. The ids of its commands follow from the event, so they count once.

        Args:
            event: a type of the aggregate's events; any other is an error for type checkers, and when it is called.

        Raises:
            TopologyError: `INVALID_REACTION`.

        Example:
            >>> @order.on(OrderPlaced)  # doctest: +SKIP
            ... def reserve(event: OrderPlaced, own: AggregateState[Order]) -> AggregateCommand:
            ...     return stock.command(event.item, Reserve(own.id, event.quantity))
        """
        if self.event_types.name_of_type(event) is None:
            raise TopologyError(
                "INVALID_REACTION",
                f"{event!r} is no event of aggregate {self.name!r}; its events are {', '.join(self.event_types.types)}",
            )

        def registered(
            function: Callable[[Any, AggregateState[S]], Reactions],
        ) -> Callable[[Any, AggregateState[S]], Reactions]:
            _check_taken(event, function)
            self.reactions.append(Reacting(event, function))
            return function

        return registered

    def _name_of_refusal(self, event: type) -> str:
        name = self.event_types.name_of_type(event)
        if name is None:
            raise TopologyError(
                "INVALID_TYPES",
                f"{event!r} is said to be a refusal, and is no event of aggregate {self.name!r}; its events are "
                f"{', '.join(self.event_types.types)}",
            )
        return name

    def add_to(self, builder: StreamsBuilder) -> None:
        """Add the aggregate to a topology. Reactions may still be registered until the topology is built.

        Raises:
            TopologyError: the topology has an aggregate, topic or store of that name.
        """
        builder.check_at_build(check_relations)
        raw, name = Serdes.bytes(), self.name
        commands: Consumed[Any, Any] = Consumed.with_(
            raw, raw, wall_clock_timestamp(), reset="earliest", name=f"{name}-commands-source"
        )  # by the wall clock: no timestamp of a sender can stop a partition
        source: KStream[bytes | None, bytes | None] = builder.stream(self.commands_topic, commands)
        decided = source.process(AggregateSupplier(self), name=f"{name}-aggregate")
        for child, topic in (("events", self.events_topic), ("dead-letters", self.dead_letters_topic)):
            decided.to(topic, Produced.with_(raw, OutgoingSerde(), name=f"{name}-{child}-sink"))
        decided.to(
            self.replies_topic,
            Produced.with_(raw, OutgoingSerde(), name=f"{name}-replies-sink", partitioner=reply_partition),
        )
        decided.to(
            lambda key, value, context: value.topic, Produced.with_(raw, OutgoingSerde(), name=f"{name}-reactions-sink")
        )
        self._events(builder).process_values(IndexSupplier(self), name=f"{name}-event-index")

    def topology(self, *others: EventSourced[Any, Any, Any] | Saga[Any]) -> Topology:
        """The topology of this aggregate, and of others and sagas that run in the same application.

        Raises:
            TopologyError: as `add_to`, and what building a topology raises.
        """
        builder = StreamsBuilder()
        for each in (self, *others):
            each.add_to(builder)
        return builder.build()

    def events(self, builder: StreamsBuilder) -> KStream[str, RecordedEvent[Any]]:
        """The events as a stream of the topology, by aggregate id: for tables and joins of the DSL, one epoch later."""
        return self._events(builder).process(partial(EventDecoder, self), name=f"{self.name}-event-decoder")

    def _events(self, builder: StreamsBuilder) -> KStream[bytes, bytes]:
        raw = Serdes.bytes()
        return builder.stream(
            self.events_topic, Consumed.with_(raw, raw, reset="earliest", name=f"{self.name}-events-source")
        )

    def state_serde(self) -> StateSerde:
        """The serde of the values of the store of states."""
        return StateSerde(self.state_types, self.state_version)

    def initial_state(self) -> Any:
        """The state before the first event; a new object each time."""
        return self.state_types.decode(self._initial_type, self._initial)

    def evolved(self, state: Any, event: Any) -> Any:
        """The state after an event."""
        return self.decider.evolve(state, event)

    def upcast(self, event_type: str, data_version: int, data: bytes) -> bytes:
        """The JSON of an event as the current type has it."""
        return upcast(self._upcasters, event_type, data_version, data)

    def evolve_digest(self) -> str:
        """A digest of the code of `evolve`, by which a change is seen."""
        code = getattr(self.decider.evolve, "__code__", None)
        return "" if code is None else hashlib.sha256(repr(_code_parts(code)).encode()).hexdigest()[:16]


def _check_taken(event: type, function: Callable[..., object]) -> None:
    """Refuse a reaction whose first parameter is annotated with another type; without an annotation it takes all.

    Raises:
        TopologyError: `INVALID_REACTION`.
    """
    try:
        taken = hints_of(function, 0, "events")
    except TopologyError:
        return
    classes = [each for each in taken if isinstance(each, type) and each is not Any]
    if len(classes) == len(taken) and not issubclass(event, tuple(classes)):
        raise TopologyError(
            "INVALID_REACTION",
            f"the reaction {getattr(function, '__qualname__', function)!r} to {event.__name__} takes "
            f"{', '.join(each.__name__ for each in classes)}; annotate its first parameter with the event",
        )


def _code_parts(code: types.CodeType) -> tuple[object, ...]:
    constants = tuple(_code_parts(each) if isinstance(each, types.CodeType) else each for each in code.co_consts)
    return code.co_code, constants, code.co_names


def _window_ms(window: object) -> int:
    if not isinstance(window, timedelta) or window < timedelta(0):
        raise TopologyError("INVALID_DURATION", f"deduplication_window is a timedelta of 0 or more, not {window!r}")
    return window // timedelta(milliseconds=1)


def _data_versions(upcasters: Mapping[tuple[str, int], Upcaster], events: TypeNames) -> dict[str, int]:
    versions: dict[str, int] = {}
    for event_type, version in upcasters:
        if event_type not in events:
            raise TopologyError(
                "INVALID_UPCASTER",
                f"there is an upcaster for {event_type!r}, which is no event; events are {', '.join(events.types)}",
            )
        versions[event_type] = max(versions.get(event_type, 1), version + 1)
    for event_type, current in versions.items():
        missing = [version for version in range(1, current) if (event_type, version) not in upcasters]
        if missing:
            raise TopologyError(
                "INVALID_UPCASTER",
                f"{event_type!r} is at version {current}, and no upcaster takes version {missing[0]} to the next",
            )
    return versions


def _check_renamed(renamed: Mapping[str, type], *kinds: TypeNames) -> None:
    for former, current in renamed.items():
        if all(kind.name_of_type(current) is None for kind in kinds):
            raise TopologyError(
                "INVALID_TYPES",
                f"{former!r} is renamed to {current!r}, which is no command and no event of the aggregate",
            )
