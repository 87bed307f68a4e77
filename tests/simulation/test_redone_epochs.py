"""An open epoch that its own program cannot finish is done again by another one, or finished by its own topology."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.simulation.chaos import run_seed
from tests.simulation.planted import REDONE, Bug
from tests.simulation.programs import REDOING, poisoned
from tests.simulation.scheduler import Process, Stuck
from tests.simulation.world import Violation, World, quiet_world

from hayase.core.errors import ProcessingError
from hayase.core.failpoints import REDO_NAMES
from hayase.query.numbered_plans import plan_numbers
from hayase.state.changelog.changelog import Changelog
from hayase.state.changelog.redone_epochs import RedoneEpochs
from hayase.task.epoch_record import EpochRecord, Epochs, done_name, record_name

STEPS = tuple(f"at {name}" for name in REDO_NAMES)
"""Those of a start that does an epoch again."""
LATER_STEPS = ("at before_epoch_record", "at after_epoch_record", "at before_delta", "at after_delta", "at before_done")
"""Those of the next epoch."""


@pytest.fixture(params=["embedded", "kafka"])
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    with quiet_world(1, REDOING, kafka=request.param == "kafka", **{"num.bundles": 1}) as made:
        made.version = "corrected"
        made.start()
        for number in range(8):
            made.put("aside" if number % 2 else "in")
        made.run_through()
        made.stop()
        yield made


def _put_poison(world: World) -> None:
    while not poisoned(world.put("in").id):
        pass


def _fail(world: World, version: str) -> ProcessingError:
    """Start a version that fails at a record."""
    world.version = version
    run = world.start()
    world.sim.run_until(lambda: not run.alive, 120.0)
    assert isinstance(run.error, ProcessingError), run.error
    return run.error


def _open_epoch(world: World) -> EpochRecord:
    epochs = Epochs(world.store.blobs())
    record = epochs.record(max(epochs.recorded()))
    assert record is not None and record.epoch > epochs.last_done(), "no epoch is open"
    return record


def _go_on(world: World, *versions: str) -> list[str]:
    """Start one version after the other until all input is processed; with what the others were refused."""
    refused: list[str] = []
    for version in (*versions, *versions, *versions):
        if world.through() and not any(process.frozen for process in world.sim.processes):
            break
        if not world.running:
            world.version = version
            world.start()
        world.sim.run_until(lambda: world.through() or not world.running, 200.0)
        refused += [run.error.condition for run in world.runs[-1:] if run.error is not None]
    assert world.through(), refused
    return refused


def _finish(world: World) -> None:
    """All that was frozen wakes, what is new is processed, and everything is as it should be."""
    world.sim.run_until(lambda: not any(process.frozen for process in world.sim.processes), 200.0)
    for topic in ("in", "aside", "in"):
        world.put(topic)
    if not world.running:
        world.start()
    world.run_through()
    world.stop_quietly()
    world.check()


def _crash_at(world: World, label: str) -> bool:
    """Everything dies at the first step of that name; whether there was one."""
    struck: list[Process] = []

    def strike(process: Process, found: str) -> None:
        if not struck and found.startswith(label):
            struck.append(process)
            world.crash_all()

    world.sim.on_step = strike
    world.sim.run_until(lambda: bool(struck) or not world.running, 120.0)
    world.sim.run_for(1.0)
    world.sim.on_step = lambda process, label: None
    return bool(struck)


def test_a_changed_program_does_the_epoch_again_that_the_one_before_fails_at(world: World) -> None:
    _put_poison(world)
    assert "is poison" in str(_fail(world, "poisoned"))
    begun = _open_epoch(world)
    _go_on(world, "filtered")
    blobs = world.store.blobs()
    epochs = Epochs(blobs)
    again = epochs.record(begun.epoch + 1)
    assert epochs.is_redone(begun.epoch) and begun.epoch in RedoneEpochs(blobs)
    assert again is not None and (again.plan_number, again.previous) == (1, begun.digest)
    assert {topic: {p: s for p, (s, _) in parts.items()} for topic, parts in again.ranges.items()} == {
        topic: {p: s for p, (s, _) in parts.items()} for topic, parts in begun.ranges.items()
    }
    _finish(world)


@pytest.mark.long
def test_an_epoch_whose_program_is_gone_is_done_again_at_once(world: World) -> None:
    _put_poison(world)
    _fail(world, "poisoned")
    world.store.lose("programs/")
    assert _go_on(world, "second sink") == []
    _finish(world)


@pytest.mark.long
def test_an_epoch_is_done_again_as_often_as_programs_fail_at_it(world: World) -> None:
    """The second program fails at it, too, because the poison comes back with it."""
    _put_poison(world)
    _fail(world, "poisoned")
    world.version = "filtered"
    for _ in range(2):
        world.start()
        assert _crash_at(world, "at after_epoch_record")
        world.version = "second sink" if world.version == "filtered" else "filtered"
        world.store.lose("programs/")
    _go_on(world, world.version)
    epochs = Epochs(world.store.blobs())
    redone = [epoch for epoch in epochs.recorded() if epochs.is_redone(epoch)]
    assert len(redone) == 3 and redone == list(range(redone[0], redone[0] + 3))
    _finish(world)


@pytest.mark.long
@pytest.mark.parametrize("part", ["outputs", "a delta"])
def test_an_epoch_of_which_a_bundle_has_published_its_part_is_for_its_own_topology(part: str) -> None:
    with quiet_world(1, REDOING, kafka=True, **{"num.bundles": 1 if part == "outputs" else 2}) as world:
        _put_poison(world)
        for _ in range(8 if part == "outputs" else 0):
            world.put("aside")
        _fail(world, "poisoned")
        begun = _open_epoch(world)
        world.version = "filtered"
        run = world.start()
        world.sim.run_until(lambda: not run.alive, 120.0)
        assert run.error is not None and run.error.condition == "OPEN_EPOCH_OF_ANOTHER_PLAN"
        assert f"has published {part} of it" in run.error.message
        assert "function corrected" in run.error.message
        assert not world.store.names("redo/") and plan_numbers(world.store.blobs()) == [0]
        _go_on(world, "corrected", "filtered")
        assert not Epochs(world.store.blobs()).is_redone(begun.epoch)
        world.stop()
        world.version = "filtered"
        _finish(world)


@pytest.mark.long
@pytest.mark.parametrize("after", ["filtered", "corrected", pytest.param("second sink", marks=pytest.mark.slow)])
@pytest.mark.parametrize("label", [*STEPS, *(pytest.param(each, marks=pytest.mark.slow) for each in LATER_STEPS)])
def test_a_start_that_is_killed_while_it_does_an_epoch_again_is_followed_by_any_other(
    world: World, label: str, after: str
) -> None:
    _put_poison(world)
    _fail(world, "poisoned")
    world.version = "filtered"
    world.start()
    if not _crash_at(world, label):
        assert label == "at before_delta", "nothing is open any more"
    _go_on(world, after)
    _finish(world)


def _freeze_worker_at(world: World, label: str) -> Process:
    """Let an epoch go on until a worker comes to a step, where it stays; the driver and its planner die."""
    frozen: list[Process] = []

    def freeze(process: Process, found: str) -> None:
        if not frozen and found.startswith(label):
            frozen.append(process)
            process.freeze(1.0)

    world.sim.on_step = freeze
    world.version = "corrected"
    run = world.start()
    world.sim.run_until(lambda: bool(frozen), 120.0)
    world.sim.on_step = lambda process, label: None
    for process in run.processes():
        if process is not frozen[0]:
            process.crash()
    return frozen[0]


def _wake_at(world: World, worker: Process, label: str, pause_s: float) -> list[str]:
    """Keep a worker frozen until another process comes to a step, which then waits while the worker goes on."""
    woken: list[str] = []

    def wake(process: Process, found: str) -> None:
        if not woken and process is not worker and found.startswith(label):
            woken.append(found)
            process.freeze(pause_s)

    def keep() -> None:
        if not woken:
            worker.freeze(1.0)
            world.sim.at(0.4, keep)

    world.sim.on_step = wake
    world.sim.at(0.0, keep)
    world.sim.at(100.0, lambda: woken.append("late"))
    return woken


AT = (
    "at before_delta 1-0", "at after_delta 1-0", "at before_publish 1-0",
    "at before_publish 2-0", "at before_write 2-0", "at inside_publish 2-0",
)  # fmt: skip
"""Where a worker of the old program stays; 2-0 is the bundle without a journal."""


def _wakes(world: World, at: str, label: str) -> None:
    """A worker of the old program sleeps at a step, and wakes at one of a start that does its epoch again."""
    if "2-0" in at:
        for _ in range(4):
            world.put("aside")
    else:
        world.put("in")
    worker = _freeze_worker_at(world, at)
    world.store.lose("programs/")
    _wake_at(world, worker, label, 4.0)
    _go_on(world, "filtered", "corrected", "filtered")
    world.sim.on_step = lambda process, label: None
    _finish(world)


def _cases() -> Iterator[Any]:
    """Steps of the worker and of the start; a few in the quick suite."""
    quick = {
        ("at before_delta 1-0", "at after_redo_decision"), ("at after_delta 1-0", "at after_closure"),
        ("at before_publish 2-0", "at after_redo_mark"), ("at before_write 2-0", "at after_attempts_ended"),
        ("at inside_publish 2-0", "at after_closure"),
    }  # fmt: skip
    for at in AT:
        for label in (*STEPS, *LATER_STEPS):
            marks = () if (at, label) in quick else pytest.mark.slow
            yield pytest.param(at, label, marks=marks, id=f"{at[3:]}, {label[3:]}")


@pytest.mark.long
@pytest.mark.parametrize(("at", "label"), list(_cases()))
def test_a_worker_of_the_old_program_that_wakes_at_any_step_adds_nothing_to_what_is_done_again(
    world: World, at: str, label: str
) -> None:
    if at.startswith("at inside_publish") and not world.kafka:
        pytest.skip("the embedded log writes in one step")
    _wakes(world, at, label)


FOUND_AT = {
    "an attempt does not look at closures once its delta is there": ("at before_delta 1-0", "at before_epoch_record"),
    "a writer does not look at closures": ("at before_publish 2-0", "at before_epoch_record"),
    "a start does not end the attempts that have looked at closures already": (
        "at before_write 2-0", "at after_redo_decision",
    ),
    "a start looks for deltas and markers before the closure only": ("at before_write 2-0", "PUT redo/"),
    "deltas of epochs that are done again are read": ("at before_delta 1-0", "at after_redo_decision"),
    "the next epoch begins where one ended that is done again": ("at before_delta 1-0", "at after_redo_decision"),
}  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize("bug", [bug for bug in REDONE if bug.name in FOUND_AT], ids=lambda bug: bug.name)
def test_a_planted_bug_of_epochs_that_are_done_again_is_found(world: World, bug: Bug) -> None:
    with bug.plant(), pytest.raises((Violation, Stuck, AssertionError)):
        _wakes(world, *FOUND_AT[bug.name])


def _refuses_to_go_on(world: World, bug: Bug) -> None:
    def go_on() -> None:
        _go_on(world, "corrected")
        _finish(world)

    with bug.plant(), pytest.raises((Violation, Stuck, AssertionError)):
        go_on()


@pytest.mark.long
def test_a_start_that_does_not_go_on_with_an_earlier_decision_would_be_found(world: World) -> None:
    _put_poison(world)
    _fail(world, "poisoned")
    world.version = "filtered"
    world.start()
    assert _crash_at(world, "at after_redo_decision")
    (bug,) = (bug for bug in REDONE if bug.name not in FOUND_AT)
    _refuses_to_go_on(world, bug)


@pytest.mark.long
def test_a_delta_that_comes_after_all_is_not_read(world: World) -> None:
    """Its worker slept until the epoch was done again."""
    world.put("in")
    worker = _freeze_worker_at(world, "at before_delta 1-0")
    begun = _open_epoch(world)
    world.store.lose("programs/")
    _wake_at(world, worker, "at after_redo_mark", 0.0)
    _go_on(world, "filtered")
    world.sim.run_for(30.0)
    changelog = Changelog(world.store.blobs(), "1-0")
    assert changelog.has_delta(begun.epoch) and begun.epoch not in changelog.epochs()
    for machine in range(3):
        world.wipe(machine)
    world.sim.run_for(1.0)
    _finish(world)


@pytest.mark.long
def test_a_planner_of_the_old_program_that_wakes_plans_nothing_more(world: World) -> None:
    first = world.start(0)
    frozen: list[Process] = []

    def freeze(process: Process, label: str) -> None:
        if not frozen and label.startswith("at after_epoch_record"):
            frozen.append(process)
            process.freeze(80.0)

    world.sim.on_step = freeze
    world.put("in")
    world.sim.run_until(lambda: bool(frozen), 120.0)
    first.process.freeze(80.0)
    world.sim.on_step = lambda process, label: None
    world.sim.run_for(40.0)  # the lease is over
    world.store.lose("programs/")
    world.version = "filtered"
    world.start(first.process.machine + 1)  # on its own the frozen holder of the lease is seen to be alive
    world.sim.run_until(world.through, 60.0)
    world.sim.run_until(lambda: not any(process.frozen for process in world.sim.processes), 200.0)
    world.sim.run_for(60.0)
    assert not first.alive
    _finish(world)


@pytest.mark.long
def test_a_mark_that_is_missing_is_put_back_as_that_of_an_epoch_that_was_done_again(world: World) -> None:
    _put_poison(world)
    _fail(world, "poisoned")
    begun = _open_epoch(world)
    _go_on(world, "filtered")
    world.stop()
    world.store.blobs().delete(done_name(begun.epoch))
    world.start()
    world.put("in")
    world.run_through()
    assert Epochs(world.store.blobs()).is_redone(begun.epoch)
    assert world.store.get(record_name(begun.epoch)) is not None
    _finish(world)


@pytest.mark.parametrize(
    "seed",
    [0, *(pytest.param(seed, marks=pytest.mark.long if seed < 6 else pytest.mark.slow) for seed in range(1, 30))],
)
def test_whatever_happens_an_epoch_comes_out_once(seed: int) -> None:
    outcome = run_seed(seed, keep_trace=False, program=REDOING)
    assert not outcome.problem, f"{outcome.description}\n{outcome.problem}"
