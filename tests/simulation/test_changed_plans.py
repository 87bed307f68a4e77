"""A topology that changes in place: what it counted goes on, whatever the builder numbers it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.simulation.planted import OPEN_EPOCH_IGNORED
from tests.simulation.programs import PROGRAMS
from tests.simulation.scheduler import Process, Stuck
from tests.simulation.world import Violation, World, quiet_world

from hayase.query.checkpoint import find_checkpoint
from hayase.query.numbered_plans import plan_numbers
from hayase.task.epoch_record import Epochs

CHANGING = PROGRAMS["changing plans"]


@pytest.fixture(params=["embedded", "kafka"])
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    with quiet_world(1, CHANGING, kafka=request.param == "kafka") as made:
        yield made


def _run(world: World, records: int) -> None:
    for _ in range(records):
        world.put()
    world.run_through()


def _change(world: World, version: str) -> None:
    world.stop()
    world.version = version
    world.start()


def _go_on_to_the_end(world: World) -> None:
    world.start()
    _run(world, 5)
    world.stop_quietly()
    world.check()


def _tasks(world: World) -> dict[str, tuple[str, ...]]:
    checkpoint = find_checkpoint(world.store.blobs(), "app")
    assert checkpoint is not None
    return checkpoint.tasks


def test_counts_go_on_under_each_version_of_a_topology(world: World) -> None:
    world.start()
    _run(world, 10)
    for version in ("filtered", "another before", "second sink", "another before", "plain"):
        _change(world, version)
        _run(world, 10)
    world.stop_quietly()
    world.check()
    record = world.last_done()
    assert record is not None and record.plan_number == 5


def test_a_sub_topology_keeps_its_id_when_another_is_counted_before_it(world: World) -> None:
    world.start()
    _run(world, 5)
    before = _tasks(world)
    _change(world, "another before")
    _run(world, 5)
    now = _tasks(world)
    assert {bundle.partition("-")[0] for bundle in before} == {"0", "1"}
    assert {bundle.partition("-")[0] for bundle in now} == {"0", "1", "2"}
    assert before.items() <= now.items()
    _change(world, "plain")
    _run(world, 5)
    assert _tasks(world) == before
    _change(world, "another before")
    _run(world, 5)
    assert {bundle.partition("-")[0] for bundle in _tasks(world)} == {"0", "1", "3"}, "numbers are not used again"


def test_an_epoch_is_planned_for_the_switch_though_there_is_no_input(world: World) -> None:
    world.start()
    _run(world, 5)
    last = world.last_done()
    _change(world, "filtered")
    world.sim.run_for(10.0)
    switched = world.last_done()
    assert last is not None and switched is not None
    assert (switched.epoch, switched.plan_number, switched.records) == (last.epoch + 1, 1, 0)


def _crash_at(world: World, label: str) -> None:
    """Everything dies at the first step of that name."""
    struck: list[Process] = []

    def strike(process: Process, found: str) -> None:
        if not struck and found.startswith(label):
            struck.append(process)
            world.crash_all()

    world.sim.on_step = strike
    world.sim.run_until(lambda: bool(struck), 120.0)
    world.sim.run_for(1.0)
    world.sim.on_step = lambda process, label: None


@pytest.mark.parametrize("label", ["at after_epoch_record", "at before_delta", "at after_delta", "at before_done"])
def test_an_open_epoch_is_finished_by_the_topology_that_began_it(world: World, label: str) -> None:
    world.start()
    _run(world, 5)
    world.put()
    _crash_at(world, label)
    begun = max(Epochs(world.store.blobs()).recorded())
    world.version = "another before"
    world.start()
    _run(world, 5)
    epochs = Epochs(world.store.blobs())
    open_epoch, behind = epochs.record(begun), epochs.record(begun + 1)
    assert open_epoch is not None and open_epoch.plan_number == 0
    assert behind is not None and behind.plan_number == 1
    world.stop_quietly()
    world.check()


def test_without_the_old_topology_an_open_epoch_would_meet_rows_that_the_new_one_does_not_know(world: World) -> None:
    """A bug that is planted, so that the schedule above is known to be worth something."""
    world.version = "another before"
    world.start()
    _run(world, 5)
    for _ in range(5):
        world.put()
    _crash_at(world, "at after_publish")
    world.version = "plain"
    with OPEN_EPOCH_IGNORED.plant(), pytest.raises((Violation, KeyError, Stuck)):
        _go_on_to_the_end(world)


def test_a_start_that_is_killed_while_the_old_topology_finishes_an_epoch_is_followed_by_another(world: World) -> None:
    world.start()
    _run(world, 5)
    world.put()
    _crash_at(world, "at before_delta")
    world.version = "another before"
    for label in ("at before_delta", "at after_delta", "at before_epoch_record"):
        world.start()
        _crash_at(world, label)
    world.version = "filtered"
    _go_on_to_the_end(world)


def test_an_open_epoch_whose_program_is_gone_waits_for_that_topology(world: World) -> None:
    world.start()
    _run(world, 5)
    world.put()
    _crash_at(world, "at before_delta")
    blobs = world.store.blobs()
    blobs.delete_below("programs/")
    world.version = "filtered"
    run = world.start()
    world.sim.run_until(lambda: not run.alive, 120.0)
    assert run.error is not None and run.error.condition == "OPEN_EPOCH_OF_ANOTHER_PLAN"
    assert plan_numbers(world.store.blobs()) == [0], "a refused start leaves no plan"
    world.version = "plain"
    world.start()
    _run(world, 5)
    _change(world, "filtered")
    _run(world, 5)
    world.stop_quietly()
    world.check()


def test_a_plan_that_no_record_names_has_not_been_used(world: World) -> None:
    world.start()
    _run(world, 5)
    world.stop()
    world.version = "filtered"
    world.start()
    _crash_at(world, "at before_epoch_record")
    assert plan_numbers(world.store.blobs()) == [0, 1]
    world.version = "plain"
    world.start()
    _run(world, 5)
    record = world.last_done()
    assert record is not None and record.plan_number == 0
    _change(world, "filtered")
    _run(world, 5)
    assert plan_numbers(world.store.blobs()) == [0, 1], "the plan that was never used is this one"
    _change(world, "second sink")
    _run(world, 5)
    assert plan_numbers(world.store.blobs()) == [0, 1, 2]
    world.stop_quietly()
    world.check()


def test_an_old_planner_that_wakes_after_the_change_cannot_mix_the_plans(world: World) -> None:
    """It creates the record that the new program wanted: its plan is in use still, and it finishes the epoch."""
    first = world.start()
    _run(world, 5)
    world.put()
    woken: list[Process] = []

    def freeze(process: Process, label: str) -> None:
        if not woken and label.startswith("at before_epoch_record"):
            woken.append(process)
            process.freeze(60.0)

    world.sim.on_step = freeze
    world.sim.run_until(lambda: bool(woken), 120.0)
    first.process.freeze(60.0)
    world.sim.on_step = lambda process, label: None
    world.version = "another before"
    world.sim.run_for(40.0)  # the lease is over
    world.start()
    for _ in range(5):
        world.put()
    world.sim.run_until(lambda: not any(process.frozen for process in world.sim.processes), 200.0)
    world.sim.run_for(60.0)
    for version in ("plain", "another before"):
        if not world.running:
            world.version = version
            world.start()
        world.sim.run_for(60.0)
    world.run_through()
    world.stop_quietly()
    world.check()
    epochs = Epochs(world.store.blobs())
    numbers = [record.plan_number for epoch in sorted(epochs.recorded()) if (record := epochs.record(epoch))]
    assert numbers == sorted(numbers)


def test_a_follower_takes_the_bundles_of_the_plan_that_the_records_name(world: World) -> None:
    from tests.simulation.application import Follower

    follower = Follower(world.place, "follower")
    world.start()
    _run(world, 5)
    _change(world, "another before")
    _run(world, 5)
    last = world.last_done()
    assert last is not None
    world.sim.run_until(lambda: follower._replica is not None and follower._replica.epoch >= last.epoch, 60.0)
    assert {path.name.partition("-")[0] for path in follower.folder.iterdir() if path.is_dir()} >= {"1", "2"}
    _change(world, "plain")
    _run(world, 5)
    last = world.last_done()
    assert last is not None
    world.sim.run_until(lambda: follower._replica is not None and follower._replica.epoch >= last.epoch, 60.0)
    world.stop_quietly()
    world.check()
