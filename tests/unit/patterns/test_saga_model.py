"""Whatever is refused, lost, late, repeated or out of order: all steps are done, or nothing is left of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.budget import examples
from tests.unit.patterns.sagas import PAYMENTS, RETRIES, TIMEOUT, Do, Undo

from hayase.patterns import SagaState, Step
from hayase.patterns.saga.definition import SagaDefinition, definition_of
from hayase.patterns.saga.machine import SagaMachine
from hayase.patterns.saga.rows import Answer, CommandId, SagaRow, SagaRowSerde, StepRow

pytestmark = pytest.mark.long


def _step(name: str, *, pivot: bool = False, undo: bool = True) -> Step:
    def action(saga: SagaState[Any]) -> Any:
        return PAYMENTS.command(name, Do(saga.id))

    def back(saga: SagaState[Any]) -> Any:
        return PAYMENTS.command(name, Undo(saga.id))

    return Step(
        name=name, to=PAYMENTS, action=action, undo=back if undo else None, pivot=pivot, retries=RETRIES,
        timeout=TIMEOUT,
    )  # fmt: skip


DEFINITIONS = [
    definition_of("m", 1, [_step("a"), _step("b"), _step("c", pivot=True, undo=False), _step("d", undo=False)]),
    definition_of("m", 1, [[_step("a"), _step("b")], _step("c", pivot=True), [_step("d"), _step("e", undo=False)]]),
    definition_of("m", 1, [_step("a"), [_step("b"), _step("c")]]),
]


@dataclass
class Service:
    """What the aggregate of one step has done: the sequential model of an addressee, with ids that count once."""

    done: bool = False
    replies: dict[str, Answer] = field(default_factory=dict)
    times_done: int = 0

    def take(self, command: CommandId, undoes: str, draw: Callable[[], str]) -> Answer:
        known = self.replies.get(command.text())
        if known is not None:
            return known
        outcome = draw()
        if outcome == "failed":
            return Answer(command.text(), "reply", "failed")
        if outcome == "rejected":
            answer = Answer(command.text(), "reply", "rejected", "no")
        else:
            answer = Answer(command.text(), "reply", "accepted")
            if command.undo:
                self.done = False
                self.replies[undoes] = Answer(undoes, "reply", "rejected", "undone")
            else:
                assert not self.done, "done twice"
                self.done, self.times_done = True, self.times_done + 1
        self.replies[command.text()] = answer
        return answer


class World:
    """One saga, its services, and messages on their way: per step in order, or in any order."""

    def __init__(self, definition: SagaDefinition, data: st.DataObject, ordered: bool) -> None:
        self.definition, self.data, self.ordered = definition, data, ordered
        self.row = SagaRow(
            "1", 1, "running", msgspec.Raw(b"{}"), "1", "s", 0, 0, {name: StepRow() for name in definition.steps}
        )
        self.services = {name: Service() for name in definition.steps}
        self.commands: list[tuple[CommandId, str]] = []
        self.answers: list[Answer] = []
        self.now_ms, self.random = 1, True

    def change(self, change: Callable[[SagaMachine], object]) -> None:
        serde = SagaRowSerde()
        self.row = serde.from_bytes(serde.to_bytes(self.row))  # as a store gives it in the next epoch
        machine = SagaMachine("m", self.definition, self.row, self.now_ms)
        change(machine)
        while (command := machine.next_send()) is not None:
            machine.was_sent(command)
            attempt = self.row.steps[command.step].attempt
            self.commands.append((command, CommandId("m", "1", command.step, False, attempt).text()))

    def due(self) -> list[str]:
        return [name for name, step in self.row.steps.items() if step.due_ms]

    def step(self) -> None:
        choices = [*(["command"] if self.commands else []), *(["answer"] if self.answers else [])]
        choices += ["timer"] if self.due() and (self.random or not choices) else []
        choices += ["cancel"] if self.random else []
        if not choices:
            return
        choice = self.data.draw(st.sampled_from(choices)) if self.random else choices[0]
        if choice == "command":
            index = 0 if self.ordered or not self.random else self.data.draw(st.integers(0, len(self.commands) - 1))
            command, undoes = self.commands.pop(index)
            service = self.services[command.step]
            self.answers.append(service.take(command, undoes, self._outcome))
            if self.random and self.data.draw(st.booleans()):
                self.commands.append((command, undoes))  # arrives twice
        elif choice == "answer":
            answer = self.answers.pop(self.data.draw(st.integers(0, len(self.answers) - 1)) if self.random else 0)
            if self.random and self.data.draw(st.booleans()):
                self.answers.append(answer)
            if self.random and self.data.draw(st.integers(0, 4)) == 0:
                return  # comes too late to count before a timeout: the command is sent again
            self._answer(answer)
        elif choice == "timer":
            name = min(self.due(), key=lambda each: self.row.steps[each].due_ms)
            self.now_ms = max(self.now_ms, self.row.steps[name].due_ms)
            self.row.steps[name].due_ms = 0
            self.change(lambda machine: machine.fire(name))
        else:
            self.change(lambda machine: machine.cancel("cancelled"))

    def _answer(self, answer: Answer) -> None:
        _, saga_id, step, kind, number = answer.command_id.split(":")
        command = CommandId("m", saga_id, step, kind == "undo", int(number))
        self.change(lambda machine: machine.answer(command, answer))

    def _outcome(self) -> str:
        return (
            self.data.draw(st.sampled_from(["accepted", "accepted", "rejected", "failed"]))
            if self.random
            else "accepted"
        )


@settings(max_examples=examples(25), deadline=None)
@given(data=st.data(), definition=st.sampled_from(DEFINITIONS), steps=st.integers(0, 60), ordered=st.booleans())
def test_in_the_end_every_step_is_done_once_or_nothing_is_left(
    data: st.DataObject, definition: SagaDefinition, steps: int, ordered: bool
) -> None:
    world = World(definition, data, ordered)
    world.change(SagaMachine.start)
    for _ in range(steps):
        world.step()
    world.random = False
    for _ in range(500):
        if not (world.commands or world.answers or world.due()):
            break
        world.step()
    done = {name: service.done for name, service in world.services.items()}
    assert world.row.status in ("completed", "cancelled")
    assert set(done.values()) == {world.row.status == "completed"}, (world.row, done)
    assert all(service.times_done <= 1 for service in world.services.values()) or world.row.status == "cancelled"
