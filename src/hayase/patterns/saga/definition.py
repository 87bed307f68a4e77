"""What a saga is: its steps, with their actions, answers, undos, retries and timeouts."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Generic, TypeVar

from hayase.core.errors import TopologyError
from hayase.patterns.reactions import AggregateCommand, CommandTarget

D = TypeVar("D")
"""Type of the data of a saga."""

_STEP_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*")
_MS = timedelta(milliseconds=1)


@dataclass(frozen=True)
class SagaState(Generic[D]):
    """What an action or an undo is made of.

    Attributes:
        id: of the saga.
        data: that it was started with.
    """

    id: str
    data: D


StepFunction = Callable[[SagaState[Any]], Any]
"""Gives the command of a step, or an `AggregateCommand`; a pure function, as it runs again for each retry."""


def _id_of_saga(saga: SagaState[Any]) -> str:
    return saga.id


@dataclass(frozen=True, kw_only=True)
class Retries:
    """When a step is tried again.

    Attributes:
        times: how often, beside the first time, before the saga gives the step up. Undos, steps behind the pivot, and
            steps of unknown outcome without an undo are tried until they succeed.
        pause: before the first retry; each further one is twice as long.
        longest_pause: at most.
        refused: also try again what was refused, under a new id; else a refusal before the pivot ends the saga.
    """

    times: int = 3
    pause: timedelta = timedelta(seconds=1)
    longest_pause: timedelta = timedelta(minutes=1)
    refused: bool = False

    def pause_ms(self, tries: int) -> int:
        """The pause after that many tries."""
        longest, first = self.longest_pause // _MS, self.pause // _MS
        return max(1, min(longest, first << min(max(tries - 1, 0), 30)))


@dataclass(frozen=True, kw_only=True)
class Step:
    """A step of a saga.

    Attributes:
        name: unique in the saga.
        to: the aggregate that gets its commands.
        action: gives the command that does it.
        undo: gives the command that takes it back; it succeeds where nothing was done. `None` is refused before the
            pivot, unless `nothing_to_undo`.
        aggregate_id: gives the id of the aggregate that both commands are for; default: that of the saga.
        success: types of events, caused by the action, that mean that it is done; none: the reply `accepted` means it.
            The reply `accepted` without any event means it, too: there was nothing to do.
        refusal: types of events that mean that it was refused; the reply `rejected` means it, too. Only with `success`:
            the reply `accepted`, which such an action gets as well, may come before the event.
        retries: when it is tried again.
        timeout: how long an answer is waited for, each time.
        pivot: once it has succeeded there is no way back: later steps are tried until they succeed.
        nothing_to_undo: it changes nothing that would have to be taken back.
    """

    name: str
    to: CommandTarget[Any]
    action: StepFunction
    undo: StepFunction | None = None
    aggregate_id: Callable[[SagaState[Any]], str] = _id_of_saga
    success: Sequence[type] = ()
    refusal: Sequence[type] = ()
    retries: Retries = Retries()
    timeout: timedelta = timedelta(seconds=30)
    pivot: bool = False
    nothing_to_undo: bool = False

    @property
    def timeout_ms(self) -> int:
        """`timeout` in milliseconds."""
        return self.timeout // _MS

    def command(self, saga: SagaState[Any], *, undo: bool) -> AggregateCommand:
        """The command of the action, or of the undo.

        Raises:
            TopologyError: `INVALID_SAGA`: it is for another aggregate.
        """
        function = self.undo if undo else self.action
        assert function is not None  # a step without an undo has none that is sent
        made = function(saga)
        if not isinstance(made, AggregateCommand):
            made = self.to.command(self.aggregate_id(saga), made)
        if made.topic != self.to.commands_topic:
            raise TopologyError(
                "INVALID_SAGA",
                f"step {self.name!r} made a command for {made.topic!r}; its aggregate is {self.to.name!r}",
            )
        return made


Steps = Sequence[Step | Sequence[Step]]


@dataclass(frozen=True)
class SagaDefinition:
    """The steps of one version of a saga.

    Attributes:
        version: open sagas keep theirs.
        groups: steps of one group run beside each other, groups one after the other.
    """

    version: int
    groups: tuple[tuple[Step, ...], ...]

    @property
    def steps(self) -> dict[str, Step]:
        """All steps by name, in order."""
        return {step.name: step for group in self.groups for step in group}

    def pivot_group(self) -> int:
        """The number of the group behind which there is no way back; the last one, if no pivot is named."""
        for number, group in enumerate(self.groups):
            if any(step.pivot for step in group):
                return number
        return len(self.groups) - 1

    def behind_pivot(self, name: str) -> bool:
        """Whether a step comes after the pivot."""
        return any(step.name == name for group in self.groups[self.pivot_group() + 1 :] for step in group)


def definition_of(saga: str, version: int, steps: Steps) -> SagaDefinition:
    """The definition, checked.

    Raises:
        TopologyError: `INVALID_SAGA`.
    """
    if not isinstance(version, int) or version < 1:
        raise _invalid(saga, f"its version is {version!r}; allowed are whole numbers from 1 on")
    groups = tuple((each,) if isinstance(each, Step) else tuple(each) for each in steps)
    if not groups or not all(groups):
        raise _invalid(saga, "it has no steps, or a group without any; give at least one Step")
    definition = SagaDefinition(version, groups)
    every = [step for group in groups for step in group]
    if len(definition.steps) < len(every):
        raise _invalid(saga, f"two steps have one name: {', '.join(step.name for step in every)}; rename one")
    pivots = [step.name for step in every if step.pivot]
    if len(pivots) > 1:
        raise _invalid(saga, f"it has {len(pivots)} pivots ({', '.join(pivots)}); allowed is one")
    at = definition.pivot_group()
    if pivots and len(groups[at]) > 1:
        raise _invalid(saga, f"the pivot {pivots[0]!r} has steps beside it; make it a step by itself")
    for number, group in enumerate(groups):
        for step in group:
            _check_step(saga, step)
            may_lack = number > at or (number == at and len(group) == 1) or step.nothing_to_undo
            if step.undo is None and not may_lack:
                raise _invalid(
                    saga,
                    f"step {step.name!r} has no undo, and a later step can be refused; give it an undo, say "
                    "nothing_to_undo=True, or put it behind the pivot",
                )
    return definition


def _check_step(saga: str, step: Step) -> None:
    if not _STEP_NAME.fullmatch(step.name):
        raise _invalid(saga, f"{step.name!r} cannot name a step; use letters, digits, '.', '_' and '-', a letter first")
    if step.timeout < _MS or step.retries.pause < _MS or step.retries.times < 0:
        raise _invalid(saga, f"step {step.name!r} needs a timeout and a pause of a millisecond or more, and times >= 0")
    if step.refusal and not step.success:
        raise _invalid(
            saga,
            f"step {step.name!r} names events of refusal and none of success. The reply `accepted` comes with both, "
            "before or after them; so name the events that mean success, too: success=[…]",
        )
    known = getattr(step.to, "event_types", None)
    for event in (*step.success, *step.refusal):
        if known is not None and known.name_of_type(event) is None:
            raise _invalid(
                saga,
                f"step {step.name!r} waits for {event.__name__}, which aggregate {step.to.name!r} does not emit; its "
                f"events are {', '.join(known.types)}",
            )


def check_versions(saga: str, known: Iterable[int], open_sagas: Iterable[tuple[str, int]]) -> None:
    """Refuse a program that does not have the definition of an open saga.

    Args:
        saga: its name.
        known: versions that the program has.
        open_sagas: how many are open by version, in any number of partitions.

    Raises:
        TopologyError: `SAGA_VERSION_MISSING`.
    """
    known, missing = sorted(known), dict[int, int]()
    for version, count in open_sagas:
        if count and int(version) not in known:
            missing[int(version)] = missing.get(int(version), 0) + count
    for number, count in missing.items():
        raise TopologyError(
            "SAGA_VERSION_MISSING",
            f"{count} open sagas of {saga!r} have version {number}, and the program has "
            f"{', '.join(map(str, known))}; give Saga the steps of that version: earlier={{{number}: […]}}",
        )


def answer_types(definitions: Iterable[SagaDefinition]) -> dict[str, set[str]]:
    """Names of the events that answer steps, by aggregate; aggregates that only reply have an empty set."""
    found: dict[str, set[str]] = {}
    for definition in definitions:
        for step in definition.steps.values():
            found.setdefault(step.to.name, set()).update(each.__name__ for each in (*step.success, *step.refusal))
    return found


def _invalid(saga: str, message: str) -> TopologyError:
    return TopologyError("INVALID_SAGA", f"saga {saga!r}: {message}")
