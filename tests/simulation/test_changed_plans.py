"""A topology that changes in place: what it counted goes on, whatever the builder numbers it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import pytest
from tests.simulation.chaos import run_seed
from tests.simulation.planted import OPEN_EPOCH_IGNORED, UNREAD_GIVEN_UP
from tests.simulation.programs import DELETING, DRAINING, PROGRAMS
from tests.simulation.scheduler import Process, Stuck
from tests.simulation.world import Violation, World, _content, quiet_world

from hayase.query.checkpoint import find_checkpoint
from hayase.query.numbered_plans import plan_numbers
from hayase.state.changelog.changelog import Changelog
from hayase.task.epoch_record import Epochs

CHANGING = PROGRAMS["changing plans"]


@pytest.fixture(params=["embedded", "kafka"])
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    with quiet_world(1, CHANGING, kafka=request.param == "kafka") as made:
        yield made


@pytest.fixture(params=["embedded", "kafka"])
def deleting(request: pytest.FixtureRequest) -> Iterator[World]:
    with quiet_world(1, DELETING, kafka=request.param == "kafka") as made:
        made.version = "second store"
        yield made


@pytest.fixture(params=["embedded", "kafka"])
def draining(request: pytest.FixtureRequest) -> Iterator[World]:
    with quiet_world(1, DRAINING, kafka=request.param == "kafka") as made:
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


@pytest.mark.long
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


@pytest.mark.long
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
    world.sim.at(20.0, lambda: struck or world.put())  # what follows an epoch may wait for the next one
    world.sim.run_until(lambda: bool(struck), 120.0)
    world.sim.run_for(1.0)
    world.sim.on_step = lambda process, label: None


@pytest.mark.long
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


@pytest.mark.long
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


@pytest.mark.long
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


@pytest.mark.long
def test_an_open_epoch_of_which_a_part_is_published_waits_for_its_topology_if_its_program_is_gone(world: World) -> None:
    world.start()
    _run(world, 5)
    world.put()
    _crash_at(world, "at after_delta")
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


@pytest.mark.long
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


@pytest.mark.long
def test_an_old_planner_that_wakes_after_the_change_cannot_mix_the_plans(world: World) -> None:
    """It creates the record that the new program wanted: its plan is in use still, and it finishes the epoch."""
    first = world.start(0)
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
    world.start(first.process.machine + 1)  # on its own the frozen holder of the lease is seen to be alive
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


@pytest.mark.long
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


def _rows(world: World, store: str) -> dict[bytes, bytes]:
    """What the checkpoint holds of a store, all tasks together."""
    checkpoint, last = find_checkpoint(world.store.blobs(), "app"), world.last_done()
    assert checkpoint is not None and last is not None
    found: dict[bytes, bytes] = {}
    for bundle in checkpoint.tasks:
        folder = world.folder / "read" / f"{last.epoch}" / bundle
        changelog = Changelog(checkpoint.blobs, bundle)
        content = _content(folder, bundle, checkpoint.checkpoint_id, changelog, last.epoch)
        for (_, name), rows in content.items():
            if name == store:
                found |= rows
    return found


@pytest.mark.long
def test_rows_of_a_removed_store_are_deleted_with_the_first_epoch_and_the_store_comes_back_empty(
    deleting: World,
) -> None:
    deleting.start()
    _run(deleting, 20)
    assert _rows(deleting, "more") and _rows(deleting, "counts")
    _change(deleting, "plain")
    deleting.sim.run_for(10.0)
    assert not _rows(deleting, "more") and _rows(deleting, "counts")
    _change(deleting, "second store")
    deleting.put(key="a")
    deleting.run_through()
    assert len(_rows(deleting, "more")) == 1
    deleting.stop_quietly()
    deleting.check()


@pytest.mark.long
def test_without_being_asked_to_a_change_deletes_nothing(deleting: World) -> None:
    deleting.place.delete_removed_stores = False
    deleting.start()
    _run(deleting, 20)
    before = _rows(deleting, "more")
    _change(deleting, "plain")
    deleting.sim.run_for(10.0)
    assert before and _rows(deleting, "more") == before
    deleting.place.delete_removed_stores = True
    _change(deleting, "plain")
    deleting.sim.run_for(10.0)
    record = deleting.last_done()
    assert record is not None and record.plan_number == 2, "the same program, with a deletion of its own"
    assert not _rows(deleting, "more")
    _change(deleting, "plain")
    deleting.sim.run_for(10.0)
    assert plan_numbers(deleting.store.blobs()) == [0, 1, 2], "what is deleted is not deleted again"
    deleting.stop_quietly()
    deleting.check()


@pytest.mark.long
def test_a_sub_topology_that_is_gone_leaves_no_deltas(deleting: World) -> None:
    deleting.version = "another before"
    deleting.start()
    _run(deleting, 20)
    before = set(_tasks(deleting))
    _change(deleting, "plain")
    for _ in range(2):  # what follows an epoch may wait for the next one
        _run(deleting, 1)
    gone = before - _tasks(deleting).keys()
    blobs = deleting.store.blobs()
    assert gone and not [name for bundle in gone for name in blobs.list(f"changelog/{bundle}/")]
    _change(deleting, "another before")
    _run(deleting, 5)
    deleting.stop_quietly()
    deleting.check()


@pytest.mark.long
@pytest.mark.parametrize(
    "label",
    [
        "at before_epoch_record", "at after_epoch_record", "at before_delta", "at after_delta", "at after_apply",
        "at before_done", "at after_done", "at before_bundle_deletion", "at after_bundle_deletion",
    ],
)  # fmt: skip
@pytest.mark.parametrize("asked", [True, False], ids=["asked again", "not asked again"])
def test_a_deletion_that_is_killed_anywhere_is_done_or_not_begun(deleting: World, label: str, asked: bool) -> None:
    deleting.version = "another before" if "bundle" in label else "second store"
    deleting.start()
    _run(deleting, 10)
    deleting.stop()
    deleting.version = "plain"
    deleting.start()
    deleting.put()
    _crash_at(deleting, label)
    deleting.place.delete_removed_stores = asked
    deleting.start()
    _run(deleting, 5)
    deleting.sim.run_for(10.0)
    deleting.stop_quietly()
    if label == "at before_epoch_record" and not asked:
        assert _rows(deleting, "more"), "the plan was not in use yet"
        deleting.program = dataclasses.replace(deleting.program, deletes=False)
    deleting.check()


@pytest.mark.long
def test_a_worker_of_before_that_wakes_after_the_deletion_writes_nothing(deleting: World) -> None:
    """It was at an epoch of a bundle that is gone meanwhile, with all its deltas."""
    deleting.version = "another before"
    run = deleting.start()
    _run(deleting, 10)
    deleting.put()
    woken: list[Process] = []

    def freeze(process: Process, label: str) -> None:
        if not woken and label.startswith("at before_delta"):
            woken.append(process)
            process.freeze(100.0)

    deleting.sim.on_step = freeze
    deleting.sim.run_until(lambda: bool(woken), 120.0)
    deleting.sim.on_step = lambda process, label: None
    deleting.run_through()
    run.stop_requested = True
    deleting.sim.run_until(lambda: not deleting.running, 120.0)
    deleting.version = "plain"
    deleting.start()
    _run(deleting, 5)
    deleting.sim.run_until(lambda: not any(process.frozen for process in deleting.sim.processes), 200.0)
    deleting.sim.run_for(30.0)
    deleting.stop_quietly()
    deleting.check()


@pytest.mark.parametrize(
    "seed",
    [0, *(pytest.param(seed, marks=pytest.mark.long if seed < 6 else pytest.mark.slow) for seed in range(1, 20))],
)
def test_whatever_happens_only_rows_of_removed_stores_are_deleted(seed: int) -> None:
    outcome = run_seed(seed, keep_trace=False, program=DELETING)
    assert not outcome.problem, f"{outcome.description}\n{outcome.problem}"


@pytest.mark.long
@pytest.mark.parametrize("version", ["at once", "as text"])
@pytest.mark.parametrize("label", ["at after_epoch_record", "at before_delta", "at after_delta", "at before_done"])
def test_the_program_before_reads_what_it_has_sent_to_a_topic_that_goes_or_changes(
    draining: World, version: str, label: str
) -> None:
    draining.start()
    _run(draining, 5)
    for _ in range(3):
        draining.put()
    _crash_at(draining, label)
    for _ in range(5):
        draining.put()
    before = draining.log.ends("in")
    draining.version = version
    draining.start()
    draining.run_through()
    epochs = Epochs(draining.store.blobs())
    of_before = [record for each in epochs.recorded() if (record := epochs.record(each)) and not record.plan_number]
    read = {number: end for number, (_, end) in of_before[-1].ranges["in"].items()}
    assert read != before, "the sources were held meanwhile"
    _change(draining, "through")
    _go_on_to_the_end(draining)


@pytest.mark.long
def test_without_the_old_topology_what_is_unread_in_a_topic_that_goes_would_be_lost(draining: World) -> None:
    """A bug that is planted, so that the schedules above and below are known to be worth something."""
    draining.start()
    _run(draining, 5)
    for _ in range(3):
        draining.put()
    _crash_at(draining, "at after_publish")
    draining.start()
    draining.sim.run_until(lambda: sum(draining.log.ends("app-by-to-repartition").values()) >= 8, 120.0)
    draining.kill()
    draining.version = "at once"
    with UNREAD_GIVEN_UP.plant(), pytest.raises((Violation, Stuck)):
        _go_on_to_the_end(draining)


@pytest.mark.long
def test_a_start_that_is_killed_while_a_topic_is_emptied_is_followed_by_any_other(draining: World) -> None:
    draining.start()
    _run(draining, 5)
    for _ in range(3):
        draining.put()
    _crash_at(draining, "at after_publish")
    for version, label in (
        ("at once", "at before_epoch_record"), ("as text", "at before_delta"), ("at once", "at after_delta"),
    ):  # fmt: skip
        draining.version = version
        draining.start()
        draining.put()
        _crash_at(draining, label)
    draining.version = "as text"
    _go_on_to_the_end(draining)


@pytest.mark.long
def test_unread_records_of_a_program_that_is_gone_are_not_given_up(draining: World) -> None:
    draining.start()
    _run(draining, 5)
    draining.sim.run_for(1.0)
    for _ in range(3):
        draining.put()
    _crash_at(draining, "at after_done")
    blobs = draining.store.blobs()
    blobs.delete_below("programs/")
    draining.version = "at once"
    run = draining.start()
    draining.sim.run_until(lambda: not run.alive, 120.0)
    assert run.error is not None and run.error.condition == "UNREAD_INTERNAL_RECORDS"
    draining.version = "through"
    draining.start()
    _run(draining, 1)
    _change(draining, "at once")
    _go_on_to_the_end(draining)


@pytest.mark.parametrize(
    "seed",
    [0, *(pytest.param(seed, marks=pytest.mark.long if seed < 6 else pytest.mark.slow) for seed in range(1, 20))],
)
def test_whatever_happens_records_of_topics_that_go_or_change_are_read(seed: int) -> None:
    outcome = run_seed(seed, keep_trace=False, program=DRAINING)
    assert not outcome.problem, f"{outcome.description}\n{outcome.problem}"
