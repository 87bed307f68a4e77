"""Aggregates and sagas of topologies, the commands that they send to each other, and what is wrong with these."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hayase.core.errors import TopologyError
from hayase.patterns.aggregate_processor import AggregateSupplier
from hayase.patterns.reactions import CommandTarget
from hayase.patterns.saga.processor import SagaSupplier
from hayase.patterns.sent_commands import can_reject, emitted_events, sent_commands
from hayase.topology.nodes import ProcessorNode
from hayase.topology.operators import Process
from hayase.topology.topology import Topology

if TYPE_CHECKING:
    from hayase.patterns.event_sourced import EventSourced
    from hayase.patterns.saga.definition import Step
    from hayase.patterns.saga.saga import Saga


@dataclass(frozen=True)
class Sending:
    """Commands that follow from an event, or that a step of a saga sends.

    Attributes:
        sender: the aggregate or saga.
        cause: the type of the event, or the name of the step.
        by: the function that makes the commands.
        target: the addressee.
        commands: their types; none: the code does not say which.
        later: some are sent at a deadline.
        kind: what the function is.
    """

    sender: str
    cause: str
    by: str
    target: CommandTarget[Any]
    commands: tuple[str, ...]
    later: bool
    kind: str


@dataclass
class Relations:
    """Aggregates and sagas of one or more topologies, and the commands between them."""

    aggregates: dict[str, EventSourced[Any, Any, Any]] = field(default_factory=dict)
    sagas: dict[str, Saga[Any]] = field(default_factory=dict)
    sendings: list[Sending] = field(default_factory=list)
    unseen: list[tuple[str, str, str]] = field(default_factory=list)
    """Reactions whose commands their code does not name: (aggregate, event, function)."""

    def owner(self, target: CommandTarget[Any]) -> CommandTarget[Any] | None:
        """The aggregate or saga that takes the commands; `None`: it is in none of the topologies."""
        return self.aggregates.get(target.name) or self.sagas.get(target.name)

    def steps_to(self, aggregate: str) -> Iterator[tuple[Saga[Any], Step]]:
        """The steps of sagas that send commands to an aggregate."""
        for saga in self.sagas.values():
            for definition in saga.definitions.values():
                yield from ((saga, step) for step in definition.steps.values() if step.to.name == aggregate)


def relations_of(*topologies: Topology) -> Relations:
    """What the topologies have of aggregates and sagas."""
    found = Relations()
    for topology in topologies:
        found.aggregates |= aggregates_of(topology)
        found.sagas |= sagas_of(topology)
    for aggregate in found.aggregates.values():
        for reacting in aggregate.reactions:
            event, by = aggregate.event_types.name_of_type(reacting.event) or "", _name_of(reacting.function)
            sent = sent_commands(reacting.function)
            found.sendings += [
                Sending(aggregate.name, event, by, target, commands, sent.later, "reaction")
                for target, commands in sent.commands
            ]
            if not sent.commands:
                found.unseen.append((aggregate.name, event, by))
    for saga in found.sagas.values():
        for step in saga.definitions[saga.version].steps.values():
            for kind, function in (("action", step.action), ("undo", step.undo)):
                if function is None:
                    continue
                named = {target.name: commands for target, commands in sent_commands(function, step.to).commands}
                commands = named.get(step.to.name, ())
                found.sendings.append(Sending(saga.name, step.name, _name_of(function), step.to, commands, False, kind))
    return found


def check_relations(topology: Topology) -> None:
    """Refuse a topology whose reactions and sagas cannot do what they are for; called when it is built.

    Raises:
        TopologyError: `INVALID_REACTION`, `INVALID_SAGA`, `REFUSAL_UNANSWERED`.
    """
    for problem in problems(relations_of(topology)):
        raise TopologyError(problem.condition, problem.message)


@dataclass(frozen=True)
class Problem:
    """What is wrong, or may be: with a condition where a build is refused for it."""

    condition: str
    message: str


def problems(relations: Relations) -> list[Problem]:
    """What is wrong among the aggregates and sagas that are known."""
    return [*_never_emitted(relations), *_not_taken(relations), *_unanswered(relations, only_sent=True)]


def remarks(relations: Relations) -> list[str]:
    """What may be wrong, or cannot be seen from here."""
    found = [each.message for each in _unanswered(relations, only_sent=False)]
    away: dict[str, list[str]] = {}
    for sending in relations.sendings:
        if relations.owner(sending.target) is None:
            away.setdefault(sending.target.name, []).append(f"{sending.sender}.{sending.cause}")
    found += [
        f"{name!r} is in none of these programs, and gets commands of {', '.join(dict.fromkeys(senders))}: name its "
        "program with --with"
        for name, senders in away.items()
    ]
    rejecting = {name for name, aggregate in relations.aggregates.items() if can_reject(aggregate)}
    found += [
        f"the reaction {each.by!r} of {each.sender!r} to {each.cause} sends {', '.join(each.commands) or 'commands'} "
        f"to {each.target.name!r}, which can reject them: a rejection is only a reply, and no reaction sees it. Give "
        "an event for the refusal, or make it a step of a saga"
        for each in relations.sendings
        if each.kind == "reaction" and each.target.name in rejecting
    ]
    found += [
        f"the code of the reaction {by!r} of {name!r} to {event} does not name what it sends"
        for name, event, by in relations.unseen
    ]
    return found


def _never_emitted(relations: Relations) -> Iterator[Problem]:
    """Events that are waited for and that no aggregate emits."""
    for name, aggregate in relations.aggregates.items():
        emitted = emitted_events(aggregate)
        for reacting in aggregate.reactions if emitted is not None else ():
            event = aggregate.event_types.name_of_type(reacting.event) or ""
            if emitted is not None and event not in emitted:
                yield Problem(
                    "INVALID_REACTION",
                    f"aggregate {name!r} reacts to {event} by {_name_of(reacting.function)!r}, and `decide` emits only "
                    f"{', '.join(sorted(emitted))}, as its annotation says",
                )
        events = emitted if emitted is not None else set(aggregate.event_types.types)
        for saga, step in relations.steps_to(name):
            for each in (*step.success, *step.refusal):
                if aggregate.event_types.name_of_type(each) not in events and each.__name__ not in events:
                    yield Problem(
                        "INVALID_SAGA",
                        f"saga {saga.name!r}: step {step.name!r} waits for {each.__name__}, which aggregate {name!r} "
                        f"does not emit; it emits {', '.join(sorted(events))}",
                    )


def _not_taken(relations: Relations) -> Iterator[Problem]:
    """Commands whose addressee does not have them."""
    for sending in relations.sendings:
        owner = relations.owner(sending.target)
        if owner is None:
            continue
        unknown = [each for each in sending.commands if each not in owner.command_types]
        if unknown:
            yield Problem(
                "INVALID_REACTION" if sending.kind == "reaction" else "INVALID_SAGA",
                f"the {sending.kind} {sending.by!r} of {sending.sender!r} ({sending.cause}) sends "
                f"{', '.join(unknown)} to {owner.name!r}, whose commands are {', '.join(owner.command_types.types)}",
            )


def _unanswered(relations: Relations, *, only_sent: bool) -> Iterator[Problem]:
    """Refusals that no reaction and no step of a saga answers."""
    for name, aggregate in relations.aggregates.items():
        sent = any(each.target.name == name for each in relations.sendings)
        if only_sent and not sent:
            continue  # its senders are in other programs: `describe` sees them
        answered = {aggregate.event_types.name_of_type(each.event) for each in aggregate.reactions}
        answered |= {each.__name__ for _, step in relations.steps_to(name) for each in step.refusal}
        for refusal in sorted(aggregate.refusals - answered):
            yield Problem(
                "REFUSAL_UNANSWERED",
                f"aggregate {name!r} refuses with the event {refusal}, and nothing answers it: react to it with "
                f"@{name}.on({refusal}), or name it in `refusal` of the step of a saga",
            )


def aggregates_of(topology: Topology) -> dict[str, EventSourced[Any, Any, Any]]:
    """The aggregates that a topology has, by name."""
    return {name: supplier.aggregate for name, supplier in aggregate_suppliers(topology).items()}


def aggregate_suppliers(topology: Topology) -> dict[str, AggregateSupplier]:
    """The suppliers of the aggregates that a topology has, by name of the aggregate."""
    return {each.aggregate.name: each for each in _suppliers(topology) if isinstance(each, AggregateSupplier)}


def sagas_of(topology: Topology) -> dict[str, Saga[Any]]:
    """The sagas that a topology has, by name."""
    return {each.saga.name: each.saga for each in _suppliers(topology) if isinstance(each, SagaSupplier)}


def _suppliers(topology: Topology) -> Sequence[object]:
    return [
        node.operator.supplier
        for node in topology.nodes
        if isinstance(node, ProcessorNode) and isinstance(node.operator, Process)
    ]


def _name_of(function: object) -> str:
    name = str(getattr(function, "__qualname__", function))
    return name.rpartition("<locals>.")[2]
