"""`Saga`: steps over several aggregates, with undo, retries, timeouts and a pivot, as a part of a topology."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Generic

from hayase.core.errors import TopologyError
from hayase.dsl import Consumed, KStream, Produced, StreamsBuilder
from hayase.patterns.outgoing import OutgoingSerde, reply_partition
from hayase.patterns.reactions import AggregateCommand, CommandTarget, check_aggregate_id
from hayase.patterns.relations import aggregate_suppliers, check_relations
from hayase.patterns.saga.answers import AnsweredSaga, AnswerReader
from hayase.patterns.saga.definition import D, SagaDefinition, Steps, answer_types, definition_of
from hayase.patterns.saga.processor import SagaSupplier
from hayase.patterns.type_names import TypeNames
from hayase.processor.timestamps import wall_clock_timestamp
from hayase.serde import Serdes
from hayase.topology.topology import Topology

if TYPE_CHECKING:
    from hayase.patterns.subject_keys import SubjectKeys

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9._-]*")


@dataclass(frozen=True)
class CancelSaga:
    """Take a saga back, if its pivot has not succeeded."""

    reason: str = "cancelled"


@dataclass(frozen=True)
class RetrySaga:
    """Send at once what a saga waits to send again, or waits for."""


class Saga(CommandTarget[Any], Generic[D]):
    """A business transaction over several aggregates: all of its steps, or what was done is taken back.

    Its data, as a command, starts it: `checkout.command("17", Checkout(…))` in a reaction, or a `CommandClient`; the
    id of the saga is that of the command's aggregate. `CancelSaga` and `RetrySaga` are its other commands.
    Topics: `<name>-commands`, `<name>-events` (what happened to each saga), `<name>-replies`; store: `<name>-state`.

    A command whose outcome is unknown (no answer in time, or `failed`) is sent again under the same id; after a
    definite refusal a new id is used. `deduplication_window` of the aggregates must be longer than the retries of a
    step take.

    Args:
        name: of the saga; letters, digits, `.`, `_` and `-`. It must not be that of an aggregate.
        data: type of its data.
        steps: in order; those of an inner sequence run beside each other.
        version: of this definition; raise it when steps change. Open sagas keep theirs.
        earlier: earlier versions → their steps; a program without the version of an open saga is refused.
        kept: how long a saga that has ended is remembered, for late answers and for `hayase saga show`.
        keys: of the subjects, if its data has personal fields; see `Personal`. Once a subject is erased, commands of
            later steps are made of the erased fields.

    Raises:
        TopologyError: `INVALID_NAME`, `INVALID_TYPES`, `INVALID_SAGA`, `INVALID_DURATION`, `INVALID_PERSONAL_FIELD`.

    Example:
        >>> checkout = Saga(
        ...     "checkout",
        ...     Checkout,
        ...     [  # doctest: +SKIP
        ...         Step(name="reserve", to=stock, action=reserve, undo=release),
        ...         Step(name="pay", to=payments, action=charge, pivot=True),
        ...         Step(name="ship", to=shipping, action=ship),
        ...     ],
        ... )
    """

    def __init__(
        self,
        name: str,
        data: type[D],
        steps: Steps,
        *,
        version: int = 1,
        earlier: dict[int, Steps] | None = None,
        kept: timedelta = timedelta(days=7),
        keys: SubjectKeys | None = None,
    ) -> None:
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise TopologyError(
                "INVALID_NAME", f"{name!r} cannot name a saga; use letters, digits, '.', '_' and '-', a letter first"
            )
        if not isinstance(kept, timedelta) or kept < timedelta(0):
            raise TopologyError("INVALID_DURATION", f"kept is a timedelta of 0 or more, not {kept!r}")
        super().__init__(name, [data, CancelSaga, RetrySaga], keys=keys)
        self.data = TypeNames("command", [data], {}, keys)
        self.version = version
        self.definitions: dict[int, SagaDefinition] = {
            number: definition_of(name, number, each) for number, each in {**(earlier or {}), version: steps}.items()
        }
        self.kept_ms = kept // timedelta(milliseconds=1)
        self.state_store, self.open_store = f"{name}-state", f"{name}-open"

    @property
    def topics(self) -> tuple[str, ...]:
        """All topics of the saga."""
        return self.commands_topic, self.events_topic, self.replies_topic

    @property
    def targets(self) -> tuple[CommandTarget[Any], ...]:
        """What its steps send commands to."""
        found = {step.to.name: step.to for each in self.definitions.values() for step in each.steps.values()}
        return tuple(found.values())

    @property
    def keys_of_commands(self) -> tuple[SubjectKeys, ...]:
        """By which personal fields are encrypted: of its data, and of the commands of its steps."""
        every = (self, *self.targets)
        return tuple({id(each.keys): each.keys for each in every if each.keys is not None}.values())

    def start(self, saga_id: str, data: D) -> AggregateCommand:
        """The command that starts a saga; raises SerializationError."""
        check_aggregate_id(saga_id)
        return self.command(saga_id, data)

    def add_to(self, builder: StreamsBuilder) -> None:
        """Add the saga to a topology.

        Raises:
            TopologyError: the topology has a saga, an aggregate, a topic or a store of that name.
        """
        builder.check_at_build(check_relations)
        raw, name = Serdes.bytes(), self.name
        commands: Consumed[Any, Any] = Consumed.with_(
            raw, raw, wall_clock_timestamp(), reset="earliest", name=f"{name}-commands-source"
        )
        source: KStream[bytes | None, bytes | None] = builder.stream(self.commands_topic, commands)
        decided = source.process(SagaSupplier(self), name=f"{name}-saga")
        decided.to(self.events_topic, Produced.with_(raw, OutgoingSerde(), name=f"{name}-events-sink"))
        decided.to(
            self.replies_topic,
            Produced.with_(raw, OutgoingSerde(), name=f"{name}-replies-sink", partitioner=reply_partition),
        )
        decided.to(
            lambda key, value, context: value.topic, Produced.with_(raw, OutgoingSerde(), name=f"{name}-steps-sink")
        )
        builder.complete_at_build(partial(self._get_answers, builder))

    def _get_answers(self, builder: StreamsBuilder, topology: Topology) -> None:
        """Have aggregates of the topology answer at once, and read the answers of others from their topics."""
        types = answer_types(self.definitions.values())
        here = aggregate_suppliers(topology)
        for target in self.targets:
            counted = frozenset(types[target.name])
            if target.name in here:
                here[target.name].answered += (AnsweredSaga(self.name, self.commands_topic, counted),)
                continue
            self._read(builder, target.replies_topic, f"{target.name}-replies", None)
            if counted:
                self._read(builder, target.events_topic, f"{target.name}-events", counted)

    def _read(self, builder: StreamsBuilder, topic: str, name: str, types: frozenset[str] | None) -> None:
        """Send the answers in a topic to the partitions of the sagas."""
        raw = Serdes.bytes()
        answers: KStream[bytes, bytes] = builder.stream(
            topic, Consumed.with_(raw, raw, reset="earliest", name=f"{name}-source")
        )
        answers.process(partial(AnswerReader, self.name, types), name=f"{self.name}-{name}-answers").to(
            self.commands_topic, Produced.with_(raw, raw, name=f"{self.name}-{name}-answers-sink")
        )
