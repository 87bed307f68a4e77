"""Aggregates and sagas as `hayase describe --patterns` shows them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hayase.patterns.relations import Relations, Sending, problems, remarks
from hayase.patterns.saga.definition import SagaDefinition, Step
from hayase.patterns.saga.saga import Saga


def described(relations: Relations) -> Iterator[str]:
    """Lines of text: the commands that follow from events and steps, and what is wrong or may be."""
    for name, aggregate in sorted(relations.aggregates.items()):
        yield f"Aggregate {name}:"
        yield f"  commands: {', '.join(aggregate.command_types.types)}"
        yield f"  events: {', '.join(aggregate.event_types.types)}"
        yield from _reactions(relations, name)
    for name, saga in sorted(relations.sagas.items()):
        yield f"Saga {name}, version {saga.version}:"
        yield f"  started by: {', '.join(saga.data.types)}"
        yield from _steps(relations, saga, saga.definitions[saga.version])
    wrong = [each.message for each in problems(relations)]
    maybe = [each for each in remarks(relations) if each not in wrong]
    for title, lines in (("Refused:", wrong), ("To look at:", maybe)):
        if lines:
            yield title
            yield from (f"  {line}" for line in lines)


def mermaid(relations: Relations) -> str:
    """A Mermaid flowchart: aggregates, sagas, and the commands between them."""
    numbers: dict[str, str] = {}

    def number(name: str) -> str:
        return numbers.setdefault(name, f"p{len(numbers)}")

    lines = [f'  {number(name)}["{name}"]' for name in sorted(relations.aggregates)]
    lines += [f'  {number(name)}{{{{"{name}"}}}}' for name in sorted(relations.sagas)]
    away = {each.target.name for each in relations.sendings if relations.owner(each.target) is None}
    lines += [f'  {number(name)}[/"{name}"/]' for name in sorted(away)]
    for sending in relations.sendings:
        arrow = "-. " if sending.kind == "undo" else "-- "
        end = " .->" if sending.kind == "undo" else " -->"
        label = f"{sending.cause}: {_commands(sending)}"
        lines.append(f'  {number(sending.sender)} {arrow}"{label}"{end} {number(sending.target.name)}')
    return "\n".join(("flowchart LR", *lines, ""))


def _reactions(relations: Relations, name: str) -> Iterator[str]:
    for sending in relations.sendings:
        if sending.sender == name and sending.kind == "reaction":
            later = ", at once or at a deadline" if sending.later else ""
            yield f"  {sending.cause} --> {sending.target.name}: {_commands(sending)} ({sending.by}{later})"
    for aggregate, event, by in relations.unseen:
        if aggregate == name:
            yield f"  {event} --> ? ({by})"


def _steps(relations: Relations, saga: Saga[Any], definition: SagaDefinition) -> Iterator[str]:
    sent = {(each.cause, each.kind): each for each in relations.sendings if each.sender == saga.name}
    for number, group in enumerate(definition.groups, 1):
        for step in group:
            undo = sent.get((step.name, "undo"))
            back = f"; undo {_commands(undo)}" if undo is not None else ""
            pivot = " (pivot)" if number - 1 == definition.pivot_group() else ""
            action = _commands(sent[step.name, "action"])
            yield f"  {number} {step.name}{pivot} --> {step.to.name}: {action}{_answers(step)}{back}"


def _answers(step: Step) -> str:
    success = ", ".join(each.__name__ for each in step.success)
    refusal = ", ".join(each.__name__ for each in step.refusal)
    return (f"; success {success}" if success else "") + (f"; refusal {refusal}" if refusal else "")


def _commands(sending: Sending) -> str:
    return ", ".join(sending.commands) or "a command"
