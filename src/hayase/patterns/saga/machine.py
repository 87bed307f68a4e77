"""What a saga does next: a pure state machine over its row, without an engine.

The argument why nothing is done twice or left undone: docs/decisions/20261125-sagas.md.
"""

from __future__ import annotations

from hayase.patterns.saga.definition import SagaDefinition, Step
from hayase.patterns.saga.rows import OPEN, Answer, CommandId, Outcome, SagaRow, StepRow

_SENT_AND_NOT_REFUSED = ("done", "given-up")


class SagaMachine:
    """Applies one answer, timer or order to one saga; what is to be sent and reported is collected.

    Args:
        saga: its name.
        definition: of the version of the row.
        row: changed in place.
        now_ms: the wall clock of the epoch.
    """

    def __init__(self, saga: str, definition: SagaDefinition, row: SagaRow, now_ms: int) -> None:
        self._saga = saga
        self._definition = definition
        self._row = row
        self._now_ms = now_ms
        self.sends: list[CommandId] = []
        """Commands to be sent now, in order."""
        self.reported: list[tuple[str, str, str]] = []
        """What happened: (type, step, reason)."""

    def start(self) -> None:
        """Begin with the first steps."""
        self._report("Started")
        self._advance()

    def answer(self, command: CommandId, answer: Answer) -> None:
        """Take the answer to a command."""
        step, row = self._definition.steps.get(command.step), self._row.steps.get(command.step)
        if step is None or row is None:
            return
        outcome = outcome_of(step, command, answer)
        if outcome is None:
            if answer.kind == "reply" and row.status == "acting" and command.number == row.attempt:
                row.accepted = True
            return
        if command.undo:
            self._undo_answered(step, row, command, outcome, answer.reason)
        else:
            self._action_answered(step, row, command, outcome, answer.reason)

    def fire(self, name: str) -> None:
        """The timer of a step has fired."""
        step, row = self._definition.steps[name], self._row.steps[name]
        if row.status not in ("acting", "undoing"):
            row.due_ms = 0
        elif row.sends_at:
            self._send(step, row)
        elif row.accepted:
            expected = ", ".join(each.__name__ for each in (*step.success, *step.refusal))
            reason = f"it was accepted, with events of which none is {expected}"
            self._report("StepStuck", name, reason)
            self._again(step, row, reason)
        else:
            self._report("StepTimedOut", name)
            self._again(step, row, "no answer in time")

    def cancel(self, reason: str) -> str | None:
        """Take everything back; why not, if that is not possible."""
        if self._row.status in ("undoing", "cancelled"):
            return None
        if self._row.status == "completed":
            return "the saga is completed"
        for group in self._definition.groups[self._definition.pivot_group() :]:
            for step in group:
                row = self._row.steps[step.name]
                if self._definition.behind_pivot(step.name) and row.status != "waiting":
                    return "the pivot has succeeded: there is no way back"
                if row.status == "acting" and row.sent and step.undo is None and not step.nothing_to_undo:
                    return f"step {step.name!r} is under way, and has no undo"
        self._abort(reason)
        return None

    def retry(self) -> bool:
        """Send at once whatever waits; whether there was anything."""
        waiting = [name for name, row in self._row.steps.items() if row.status in ("acting", "undoing")]
        for name in waiting:
            row = self._row.steps[name]
            row.tries = 0
            self._send(self._definition.steps[name], row)
        return bool(waiting)

    def next_send(self) -> CommandId | None:
        """The next command that is still to be sent; `None`: none is left."""
        while self.sends:
            command = self.sends.pop(0)
            row = self._row.steps[command.step]
            if command.undo and row.status == "undoing" and command.number == row.undo_attempt:
                return command
            if not command.undo and row.status == "acting" and command.number == row.attempt:
                return command
        return None

    def was_sent(self, command: CommandId) -> None:
        """The command is on its way: from now on its outcome is unknown."""
        if not command.undo:
            self._row.steps[command.step].sent = True

    def could_not_send(self, command: CommandId, reason: str) -> None:
        """The function that makes the command raised: nothing was sent this time."""
        step, row = self._definition.steps[command.step], self._row.steps[command.step]
        row.reason = reason
        if row.status == "acting" and not row.sent and not self._definition.behind_pivot(step.name):
            self._refused(step, row, reason)
        else:
            self._again(step, row, reason)

    def _action_answered(self, step: Step, row: StepRow, command: CommandId, outcome: Outcome, reason: str) -> None:
        if outcome == "success" and row.status in ("given-up", "undoing", "undone", "refused"):
            self._late(step, row)
        elif row.status != "acting" or command.number != row.attempt:
            return  # a repeat of what is known
        elif outcome == "success":
            row.status, row.due_ms, row.reason, row.accepted = "done", 0, "", False
            self._report("StepSucceeded", step.name)
            self._advance()
        elif outcome == "unknown":
            self._again(step, row, reason)
        elif self._definition.behind_pivot(step.name) or (step.retries.refused and row.tries <= step.retries.times):
            self._report("StepRefused", step.name, reason)
            row.attempt, row.sent, row.reason, row.accepted = row.attempt + 1, False, reason, False
            self._pause(step, row)
        else:
            self._refused(step, row, reason)

    def _undo_answered(self, step: Step, row: StepRow, command: CommandId, outcome: Outcome, reason: str) -> None:
        if row.status != "undoing" or command.number != row.undo_attempt:
            return
        if outcome == "success":
            row.status, row.due_ms, row.reason = "undone", 0, ""
            self._report("StepUndone", step.name)
            self._undo_next()
            return
        if outcome == "refusal":
            row.undo_attempt += 1
        row.reason = reason
        self._pause(step, row)

    def _late(self, step: Step, row: StepRow) -> None:
        """An action succeeded that was given up: an undo that was sent may have come before it."""
        self._report("StepSucceededLate", step.name)
        if row.status == "given-up" or step.undo is None:
            return  # its undo is still to come
        self._row.status = "undoing"
        self._undo(step, row)

    def _refused(self, step: Step, row: StepRow, reason: str) -> None:
        row.status, row.due_ms, row.reason = "refused", 0, reason
        self._report("StepRefused", step.name, reason)
        self._abort(f"{step.name}: {reason}" if reason else step.name)

    def _again(self, step: Step, row: StepRow, reason: str) -> None:
        """The outcome is unknown: the same id again, or, where there is a way back, give it up."""
        row.reason = reason
        may_give_up = (step.undo is not None or step.nothing_to_undo) and not self._definition.behind_pivot(step.name)
        if row.status == "acting" and may_give_up and row.tries > step.retries.times:
            row.status, row.due_ms = "given-up", 0
            self._abort(f"{step.name}: {reason}")
        else:
            self._pause(step, row)

    def _pause(self, step: Step, row: StepRow) -> None:
        row.sends_at, row.due_ms = True, self._now_ms + step.retries.pause_ms(row.tries)

    def _advance(self) -> None:
        if self._row.status != "running":
            return
        for group in self._definition.groups:
            rows = [(step, self._row.steps[step.name]) for step in group]
            for step, row in rows:
                if row.status == "waiting":
                    row.status = "acting"
                    self._send(step, row)
            if any(row.status != "done" for _, row in rows):
                return
        self._end("completed", "Completed")

    def _abort(self, reason: str) -> None:
        self._row.status, self._row.reason = "undoing", reason
        self._report("Undoing", reason=reason)
        for row in self._row.steps.values():
            if row.status == "acting":
                row.status, row.due_ms = ("given-up" if row.sent else "refused"), 0
        self._undo_next()

    def _undo_next(self) -> None:
        for group in reversed(self._definition.groups):
            rows = [(step, self._row.steps[step.name]) for step in group]
            for step, row in rows:
                if row.status in _SENT_AND_NOT_REFUSED:
                    self._undo(step, row)
            if any(row.status == "undoing" for _, row in rows):
                return
        self._end("cancelled", "Cancelled")

    def _undo(self, step: Step, row: StepRow) -> None:
        if step.undo is None:
            row.status = "undone"
            return
        row.status, row.undo_attempt, row.tries = "undoing", row.undo_attempt + 1, 0
        self._send(step, row)

    def _send(self, step: Step, row: StepRow) -> None:
        row.tries += 1
        row.sends_at, row.due_ms = False, self._now_ms + step.timeout_ms
        undo = row.status == "undoing"
        number = row.undo_attempt if undo else row.attempt
        self.sends.append(CommandId(self._saga, self._row.id, step.name, undo, number))

    def _end(self, status: str, reported: str) -> None:
        if self._row.status in OPEN:
            self._row.status = "completed" if status == "completed" else "cancelled"
            self._report(reported, reason=self._row.reason)

    def _report(self, what: str, step: str = "", reason: str = "") -> None:
        self.reported.append((what, step, reason))


def outcome_of(step: Step, command: CommandId, answer: Answer) -> Outcome | None:
    """What an answer means for a step; `None`: nothing yet."""
    if answer.kind == "event":
        if command.undo:
            return None
        if any(each.__name__ == answer.what for each in step.success):
            return "success"
        return "refusal" if any(each.__name__ == answer.what for each in step.refusal) else None
    if answer.what == "accepted":
        # Without an event no event can follow: the aggregate found nothing to do.
        return "success" if command.undo or not step.success or not answer.events else None
    return "unknown" if answer.what == "failed" else "refusal"
