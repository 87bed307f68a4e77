"""Whatever is refused, lost, late, repeated or out of order: all steps are done, or nothing is left of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.budget import examples
from tests.unit.patterns.sagas import PAYMENTS, RETRIES, TIMEOUT, Do, Undo

from hayase.patterns import SagaState, Step
from hayase.patterns.saga import machine as machine_module
from hayase.patterns.saga.definition import SagaDefinition, definition_of
from hayase.patterns.saga.machine import SagaMachine
from hayase.patterns.saga.rows import Answer, CommandId, SagaRow, SagaRowSerde, StepRow

_AT_MOST = 500
"""More messages and timers than any of these sagas needs to end, once nothing goes wrong any more."""


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

    def take(self, command: CommandId, undoes: str, outcome: str) -> Answer:
        known = self.replies.get(command.text())
        if known is not None:
            return known
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
                self.done, self.times_done = True, self.times_done + 1
        self.replies[command.text()] = answer
        return answer


class World:
    """One saga, its services, and messages on their way: commands of all steps in order, or in any order."""

    def __init__(self, definition: SagaDefinition, random: Random, ordered: bool) -> None:
        self.definition, self.random, self.ordered = definition, random, ordered
        self.row = SagaRow(
            "1", 1, "running", msgspec.Raw(b"{}"), "1", "s", 0, 0, {name: StepRow() for name in definition.steps}
        )
        self.services = {name: Service() for name in definition.steps}
        self.commands: list[tuple[CommandId, str]] = []
        self.answers: list[Answer] = []
        self.now_ms, self.troubled = 1, True

    def change(self, change: Callable[[SagaMachine], object]) -> None:
        serde = SagaRowSerde()
        self.row = serde.from_bytes(serde.to_bytes(self.row))  # as a store gives it in the next epoch
        machine = SagaMachine("m", self.definition, self.row, self.now_ms)
        change(machine)
        while (command := machine.next_send()) is not None:
            machine.was_sent(command)
            attempt = self.row.steps[command.step].attempt
            self.commands.append((command, CommandId("m", "1", command.step, False, attempt).text()))

    @property
    def due(self) -> list[str]:
        return [name for name, step in self.row.steps.items() if step.due_ms]

    @property
    def still(self) -> bool:
        """Whether nothing is on its way and no timer runs."""
        return not (self.commands or self.answers or self.due)

    def step(self) -> None:
        """Deliver one message, fire one timer or cancel; without trouble, in order, and timers when all is quiet."""
        if not self.troubled:
            if self.commands:
                self._deliver(0, "accepted")
            elif self.answers:
                self._answer(self.answers.pop(0))
            else:
                self._fire()
            return
        choices = [
            *([self._any_command] * 3 if self.commands else []),
            *([self._any_answer] * 3 if self.answers else []),
        ]
        choices += [self._fire] if self.due else []
        choices += [self._cancel] if self.random.random() < 0.1 else []
        if choices:
            self.random.choice(choices)()

    def _any_command(self) -> None:
        index = 0 if self.ordered else self.random.randrange(len(self.commands))
        if self.random.random() < 0.2:
            self.commands.append(self.commands[index])  # it arrives twice
        if self.random.random() < 0.1:
            self.commands.pop(index)  # it is lost: at the latest its timeout sends it again
            return
        self._deliver(index, self.random.choice(["accepted", "accepted", "rejected", "failed"]))

    def _any_answer(self) -> None:
        answer = self.answers.pop(self.random.randrange(len(self.answers)))
        if self.random.random() < 0.2:
            self.answers.append(answer)
        if self.random.random() >= 0.2:  # else it is lost
            self._answer(answer)

    def _deliver(self, index: int, outcome: str) -> None:
        command, undoes = self.commands.pop(index)
        self.answers.append(self.services[command.step].take(command, undoes, outcome))

    def _answer(self, answer: Answer) -> None:
        _, saga_id, step, kind, number = answer.command_id.split(":")
        command = CommandId("m", saga_id, step, kind == "undo", int(number))
        self.change(lambda machine: machine.answer(command, answer))

    def _fire(self) -> None:
        name = min(self.due, key=lambda each: self.row.steps[each].due_ms)
        self.now_ms = max(self.now_ms, self.row.steps[name].due_ms)
        self.row.steps[name].due_ms = 0
        self.change(lambda machine: machine.fire(name))

    def _cancel(self) -> None:
        self.change(lambda machine: machine.cancel("cancelled"))


def _check(definition: SagaDefinition, seed: int, steps: int, ordered: bool) -> str:
    """Run a saga through that many steps with trouble, then to its end; how it ended."""
    world = World(definition, Random(seed), ordered)
    world.change(SagaMachine.start)
    for _ in range(steps):
        world.step()
    world.troubled = False
    for _ in range(_AT_MOST):
        if world.still:
            break
        world.step()
    assert world.still and world.row.status in ("completed", "cancelled"), world.row
    completed = world.row.status == "completed"
    for name, service in world.services.items():
        assert service.done == completed, (name, world.row)
        assert service.times_done <= 1, (name, world.row)
    return world.row.status


@settings(max_examples=examples(200), deadline=None)
@given(st.sampled_from(DEFINITIONS), st.integers(0, 2**32 - 1), st.integers(0, 40), st.booleans())
def test_in_the_end_every_step_is_done_once_or_nothing_is_left(
    definition: SagaDefinition, seed: int, steps: int, ordered: bool
) -> None:
    _check(definition, seed, steps, ordered)


def test_the_model_sees_sagas_that_complete_and_sagas_that_are_taken_back() -> None:
    assert {_check(DEFINITIONS[seed % 3], seed, 20, bool(seed % 2)) for seed in range(50)} == {"completed", "cancelled"}


def _new_id_when_unknown(patch: pytest.MonkeyPatch) -> None:
    before = SagaMachine._pause

    def pause(self: SagaMachine, step: Step, row: StepRow) -> None:
        if row.status == "acting":
            row.attempt += 1
        before(self, step, row)

    patch.setattr(SagaMachine, "_pause", pause)


def _given_up_is_not_undone(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(machine_module, "_SENT_AND_NOT_REFUSED", ("done",))


def _undo_is_tried_once(patch: pytest.MonkeyPatch) -> None:
    def pause(self: SagaMachine, step: Step, row: StepRow) -> None:
        if row.status == "undoing":
            row.status, row.due_ms = "undone", 0
            self._undo_next()

    patch.setattr(SagaMachine, "_pause", pause)


def _way_back_behind_the_pivot(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SagaDefinition, "behind_pivot", lambda self, name: False)


@pytest.mark.parametrize(
    "plant", [_new_id_when_unknown, _given_up_is_not_undone, _undo_is_tried_once, _way_back_behind_the_pivot]
)
def test_the_model_finds_a_fault_that_is_planted_in_the_machine(
    plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    with pytest.raises(AssertionError):
        _many(2_000)


def _many(seeds: int) -> None:
    for seed in range(seeds):
        _check(DEFINITIONS[seed % 3], seed, 40, bool(seed % 2))
