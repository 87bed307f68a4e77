"""Schedules that once lost records, or doubled them, or stopped an application; written down step by step."""

from __future__ import annotations

from collections.abc import Callable
from unittest import mock

import pytest
from tests.simulation.object_store import Blob
from tests.simulation.planted import FLOOR_IGNORED
from tests.simulation.programs import PATTERN_FROM_THE_END, PROGRAMS, Program
from tests.simulation.scheduler import Process
from tests.simulation.world import MACHINES, Violation, World, quiet_world

from hayase.state.changelog import changelog

STATELESS, GROUPED, SHUFFLED = PROGRAMS["stateless"], PROGRAMS["grouped"], PROGRAMS["shuffled"]


@pytest.fixture(params=["embedded", "kafka"])
def kafka(request: pytest.FixtureRequest) -> bool:
    return bool(request.param == "kafka")


def _put(world: World, count: int) -> None:
    for _ in range(count):
        world.put()


def _run(world: World, records: int) -> None:
    """Put some, and have them go through."""
    _put(world, records)
    world.run_through()


def _when(world: World, label: str, strike: Callable[[Process], None]) -> list[Process]:
    """Strike once, at the first process that comes to a step whose label begins so."""
    struck: list[Process] = []

    def on_step(process: Process, found: str) -> None:
        if not struck and found.startswith(label):
            struck.append(process)
            strike(process)

    world.sim.on_step = on_step
    return struck


def _refusal(world: World) -> str:
    """The condition with which the last started copy ends."""
    run = world.runs[-1]
    world.sim.run_until(lambda: not run.alive or world.through(), 120.0)
    return run.error.condition if run.error is not None else "goes on"


@pytest.mark.parametrize("program", [STATELESS, GROUPED], ids=lambda each: each.name)
def test_a_checkpoint_older_than_the_log_is_refused_and_nothing_is_lost(program: Program, kafka: bool) -> None:
    with quiet_world(1, program, kafka=kafka) as world:
        world.start()
        _run(world, 10)
        backup = world.store.backup()
        _run(world, 10)
        world.stop()
        world.store.restore(backup)
        _put(world, 10)
        world.start()
        assert _refusal(world) == "CHECKPOINT_OLDER_THAN_LOG"
        world.check(complete=False)


def test_a_first_start_under_an_id_whose_markers_are_in_the_log_is_refused(kafka: bool) -> None:
    with quiet_world(2, GROUPED, kafka=kafka) as world:
        world.start()
        _run(world, 10)
        world.stop()
        world.store.restore({})
        world.start()
        assert _refusal(world) not in ("goes on", "LEASE_HELD")
        world.check()


@pytest.mark.long
@pytest.mark.parametrize("back", [False, True], ids=["to functions", "to expressions"])
def test_an_expression_may_become_a_function_between_runs(back: bool, kafka: bool) -> None:
    with quiet_world(3, SHUFFLED, kafka=kafka) as world:
        versions = ("function", "expression") if back else ("expression", "function")
        world.version = versions[0]
        world.start()
        _run(world, 10)
        world.stop()
        world.version = versions[1]
        world.start()
        _run(world, 10)
        world.stop_quietly()
        world.check()


@pytest.mark.parametrize("program", [PROGRAMS["impure"], PROGRAMS["impure expression"]], ids=lambda each: each.name)
def test_what_is_not_deterministic_is_sent_once_even_if_one_of_two_receivers_is_through(
    program: Program, kafka: bool
) -> None:
    with quiet_world(4, program, kafka=kafka, **{"num.bundles": 2}) as world:
        _put(world, 20)
        world.start()
        slow = _when(world, "at before_process 1-1", lambda process: process.freeze(20.0))
        world.sim.run_until(lambda: bool(slow), 60.0)
        through = _when(world, "at after_publish 1-0", lambda process: world.crash_all())
        world.sim.run_until(lambda: bool(through) and not world.running, 60.0)
        world.sim.run_for(10.0)
        world.start()
        world.run_through()
        world.stop_quietly()
        world.check()


def _planner_that_wakes_when_its_epochs_are_forgotten(kafka: bool) -> None:
    with quiet_world(6, STATELESS, kafka=kafka, **{"num.bundles": 2}) as world:
        world.start(machine=0)
        for number in (0, 1, 0, 1):
            world.put(partition=number)
            world.put(partition=number)
            world.run_through()
        first = world.runs[0]
        struck = _when(world, "at before_epoch_record", lambda process: process.freeze(120.0))
        world.put(partition=0)
        world.sim.run_until(lambda: bool(struck), 10.0)
        # The driver sleeps longer than its planner: nothing tells the planner that the lease is lost.
        first.process.freeze(240.0)
        world.start(machine=1)
        for _ in range(16):
            world.put(partition=0)
            world.sim.run_for(3.0)
        world.sim.run_until(lambda: not struck[0].frozen, 200.0)
        for _ in range(10):
            world.put(partition=1)
            world.sim.run_for(0.7)
        world.sim.run_until(lambda: not first.process.frozen, 200.0)
        world.sim.run_for(10.0)
        world.stop_quietly()
        world.check(complete=False)


@pytest.mark.long
def test_a_planner_that_wakes_when_its_epochs_are_forgotten_doubles_nothing(kafka: bool) -> None:
    _planner_that_wakes_when_its_epochs_are_forgotten(kafka)


@pytest.mark.long
def test_without_the_floor_it_would_double_them() -> None:
    # The embedded log refuses them as well: it compares markers in the transaction that writes.
    with FLOOR_IGNORED.plant(), pytest.raises(Violation) as found:
        _planner_that_wakes_when_its_epochs_are_forgotten(kafka=True)
    assert "more than once" in str(found.value)


def test_a_log_keeps_no_half_of_an_epoch_whose_outputs_cannot_be_read_back() -> None:
    with quiet_world(6, GROUPED, kafka=False, **{"num.bundles": 1}) as world:
        world.place.epoch_memory_max_bytes = 1
        _put(world, 20)
        gone: list[str] = []

        def strike(process: Process, label: str) -> None:
            # Piece 10 of the delta is among the outputs, some of which are written by then.
            if world.sim.in_transaction and "parts/" in label and "-000010-" in label and not gone:
                gone.append(label)
                world.store.down_until = world.sim.now + 0.001

        world.sim.on_step = strike
        world.start()
        world.run_through(300.0)
        world.stop_quietly()
        world.check()


@pytest.mark.long
def test_what_arrives_between_a_match_and_the_first_epoch_is_read(kafka: bool) -> None:
    with quiet_world(7, PATTERN_FROM_THE_END, kafka=kafka) as world:
        world.start()
        world.sim.run_until(lambda: world.last_done() is not None, 60.0)
        _run(world, 4)
        world.stop()
        topic = world.add_topic()
        run = world.start()
        world.sim.run_until(lambda: run.begun, 60.0)
        for _ in range(6):
            world.put(topic)
        world.sim.run_for(20.0)
        world.stop_quietly()
        world.check()


@pytest.mark.long
def test_a_range_that_retention_took_is_refused_before_it_is_recorded(kafka: bool) -> None:
    with quiet_world(8, GROUPED, kafka=kafka) as world:
        world.start()
        _run(world, 10)
        world.stop()
        recorded = world.store.names("epochs/")
        _put(world, 10)
        world.log.expire("in", dict.fromkeys((0, 1), 8))
        world.start()
        assert _refusal(world) == "SOURCE_RANGE_LOST"
        assert world.store.names("epochs/") == recorded
        world.check(complete=False)


def _copies_before_deltas(world: World, bundle: str) -> list[dict[str, Blob]]:
    """Copies of the checkpoint, each with the record of an epoch and without the delta of a bundle."""
    copies: list[dict[str, Blob]] = []

    def copy(process: Process, label: str) -> None:
        if label.startswith(f"at before_delta {bundle}"):
            copies.append(world.store.backup())

    world.sim.on_step = copy
    return copies


def _go_on_with(world: World, copy: dict[str, Blob]) -> None:
    """Put an older copy in place, lose the local states, and start: that is refused, or goes well."""
    world.stop()
    world.store.restore(copy)
    for machine in range(MACHINES):
        world.wipe(machine)
    world.sim.run_for(1.0)
    _put(world, 10)
    world.start()
    refused = _refusal(world) != "goes on"
    world.stop_quietly()
    world.check(complete=not refused)


@pytest.mark.long
def test_an_open_epoch_is_not_finished_without_the_rows_that_were_purged_from_an_internal_topic() -> None:
    settings = {"source.range.lost": "reset", "repartition.purge.interval.ms": 1, "num.bundles": 1}
    with quiet_world(9, PROGRAMS["through a topic"], kafka=False, **settings) as world:
        world.start()
        _run(world, 10)
        world.sim.run_for(5.0)
        # One epoch writes rows to the internal topic, the next reads them.
        copies = _copies_before_deltas(world, "1-0")
        _run(world, 10)
        world.sim.run_for(5.0)
        _go_on_with(world, copies[1])


def test_an_open_epoch_whose_outputs_are_written_is_not_processed_anew_by_functions_that_are_not_deterministic(
    kafka: bool,
) -> None:
    with quiet_world(10, PROGRAMS["impure"], kafka=kafka, **{"num.bundles": 1}) as world:
        copies = _copies_before_deltas(world, "0-0")
        _put(world, 20)
        world.start()
        world.run_through()
        world.sim.run_for(5.0)
        _go_on_with(world, copies[0])


@pytest.mark.long
def test_a_delta_that_comes_late_hides_no_snapshot() -> None:
    with (
        quiet_world(11, GROUPED, kafka=False, **{"num.bundles": 1}) as world,
        mock.patch.object(changelog, "_WORTH_A_SNAPSHOT", 16),
    ):
        first = "app/changelog/0-0/00000000000000000000"
        world.start()
        _run(world, 6)
        late = world.store.objects[first]
        for _ in range(12):
            _run(world, 6)
        world.stop()
        assert first not in world.store.objects
        world.store.objects[first] = late  # a request that its sender gave up, or a straggler that died behind it
        for machine in range(MACHINES):
            world.wipe(machine)
        world.sim.run_for(1.0)
        world.start()
        _run(world, 6)
        world.stop_quietly()
        world.check()


def _only(world: World, machine: int) -> None:
    """Spark has this machine alone."""
    world.place.away = {each: lambda: False for each in range(MACHINES) if each != machine}


@pytest.mark.long
def test_a_state_that_was_off_until_a_restored_copy_came_to_its_epoch_again_is_rebuilt(kafka: bool) -> None:
    with quiet_world(12, GROUPED, kafka=kafka, **{"num.bundles": 1}) as world:
        _only(world, 0)
        world.start()
        _run(world, 6)
        world.stop()
        copy = world.store.backup()
        world.start()
        _run(world, 6)
        world.stop()
        last = world.last_done()
        assert last is not None
        world.store.restore(copy)
        world.forget_markers()
        _only(world, 1)
        world.start()
        # The epoch of that number reads other records.
        while (record := world.last_done()) is None or record.epoch < last.epoch:
            _run(world, 1)
        assert (record.epoch, record.digest != last.digest) == (last.epoch, True)
        world.stop()
        _only(world, 0)
        world.start()
        _run(world, 6)
        world.stop_quietly()
        world.check()
