"""Many topologies in one Spark query: each has the results that it has alone, whatever happens to the others."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import polars as pl
import psutil
import pytest
from tests.spark.place import Place, until
from tests.spark.topologies import JSON, TEXT, WRITTEN, amounts, expected, totals

from hayase import Consumed, Grouped, Serdes, State, StreamsBuilder, StreamsRuntime, Topology, count
from hayase.app.checkpoint import checkpoint_id_of
from hayase.app.reset import is_in_log
from hayase.app.runtime_requests import RuntimeRequest, running_runtime, runtime_status
from hayase.core.errors import HayaseError, TopologyError
from hayase.core.records import TopicPartition
from hayase.log.kafka.slot_ids import SlotIds
from hayase.runtime.worker import outgoing_rows
from hayase.storage.open import open_blobs

OF_TOPOLOGIES = {"commit.interval.ms": 0}


def runtime_of(place: Place, **more: Any) -> StreamsRuntime:
    settings = {key: value for key, value in place.settings(**more).items() if key != "commit.interval.ms"}
    return StreamsRuntime(settings)


@contextmanager
def running(place: Place, **topologies: Topology) -> Iterator[StreamsRuntime]:
    runtime = runtime_of(place)
    for name, topology in topologies.items():
        runtime.add_topology(name, topology, OF_TOPOLOGIES)
    with runtime:
        runtime.start()
        yield runtime


def wait(condition: Callable[[], bool], runtime: StreamsRuntime) -> None:
    """Until it is so; an error of the runtime ends the wait."""

    def holds() -> bool:
        if runtime.error is not None:
            raise runtime.error
        return condition()

    until(holds)


def rests(source: str, sink: str) -> Topology:
    """Records counted by the rest of their amount: two levels."""
    builder = StreamsBuilder()
    orders = builder.stream(source, Consumed.with_(TEXT, JSON))
    counted = orders.group_by(lambda _, order: f"r{order['amount'] % 3}", Grouped.with_(TEXT, JSON))
    counted.agg(n=count()).to_stream().to(sink, WRITTEN)
    return builder.build()


def expected_rests(last: int) -> dict[str, dict[str, int]]:
    return {f"r{rest}": {"n": len(range(rest, last, 3))} for rest in range(3)}


def unlucky(source: str, sink: str) -> Topology:
    """A copy that fails on the amount 13."""

    def check(order: dict[str, int]) -> dict[str, int]:
        if order["amount"] == 13:
            raise ValueError("thirteen")
        return order

    builder = StreamsBuilder()
    builder.stream(source, Consumed.with_(TEXT, JSON)).map_values(check).to(sink, WRITTEN)
    return builder.build()


def topics(place: Place, *names: str) -> None:
    for name in names:
        place.topic(name)


def test_topologies_read_the_same_topic_each_with_a_position_of_its_own(place: Place) -> None:
    topics(place, "in", "out", "rests", "late")
    place.put("in", amounts(0, 50))
    with running(place, totals=totals(), rests=rests("in", "rests")) as runtime:
        wait(lambda: place.last("out") == expected(50) and place.last("rests") == expected_rests(50), runtime)
        runtime.add_topology("late", rests("in", "late"), OF_TOPOLOGIES)
        wait(lambda: place.last("late") == expected_rests(50), runtime)
        place.put("in", amounts(50, 80))
        wait(lambda: place.last("out") == expected(80) and place.last("late") == expected_rests(80), runtime)
        assert runtime.topology("totals").store("totals").get("k0").value == expected(80)["k0"]
        wait(lambda: {app.state for app in runtime.topologies.values()} == {State.RUNNING}, runtime)
        wait(lambda: runtime.topology("totals").progress().consumed == 80, runtime)
        assert runtime.topology("rests").config.application_id == f"{place.application_id}-rests"


@pytest.mark.kafka
def test_topologies_of_a_runtime_on_kafka(kafka_place: Place) -> None:
    place = kafka_place
    topics(place, "in", "out", "rests")
    place.put("in", amounts(0, 30))
    prefix = place.prefix
    with running(
        place, totals=totals(f"{prefix}in", f"{prefix}out"), rests=rests(f"{prefix}in", f"{prefix}rests")
    ) as runtime:
        wait(lambda: place.last("out") == expected(30) and place.last("rests") == expected_rests(30), runtime)
        place.put("in", amounts(30, 60))
        wait(lambda: place.last("out") == expected(60) and place.last("rests") == expected_rests(60), runtime)
        assert {each: owner_of(place, each) for each in ("totals", "rests")} == dict.fromkeys(
            ("totals", "rests"), place.application_id
        )


@pytest.mark.kafka
def test_on_kafka_what_is_at_least_once_is_in_no_transaction_beside_what_is_exactly_once(kafka_place: Place) -> None:
    place = kafka_place
    topics(place, "in", "exact", "loose")
    prefix = place.prefix
    with running(place, exact=totals(f"{prefix}in", f"{prefix}exact")) as runtime:
        loose = {**OF_TOPOLOGIES, "processing.guarantee": "at_least_once"}
        runtime.add_topology("loose", totals(f"{prefix}in", f"{prefix}loose"), loose)
        for last in (20, 40):
            place.put("in", amounts(last - 20, last))
            until(partial(have_totals, place, ("exact", "loose"), last), seconds=180)  # a new broker takes its time
        assert owner_of(place, "exact") == place.application_id and owner_of(place, "loose") is None
    rows, ends = {}, {}
    for name in ("exact", "loose"):
        ends[name] = sum(place.log.end_offsets([TopicPartition(prefix + name, number) for number in range(2)]).values())
        rows[name] = len(place.rows(name))
    assert ends["loose"] == rows["loose"], "each offset is a record's"
    assert ends["exact"] > rows["exact"], "each commit of a transaction takes an offset of its partitions, too"


def have_totals(place: Place, sinks: Collection[str], last: int) -> bool:
    return all(place.last(sink) == expected(last) for sink in sinks)


@pytest.mark.kafka
def test_on_kafka_a_topology_that_is_removed_with_its_state_leaves_neither_markers_nor_offsets_and_begins_anew(
    kafka_place: Place,
) -> None:
    place = kafka_place
    topics(place, "in", "out", "rests")
    place.put("in", amounts(0, 30))
    prefix = place.prefix
    with running(
        place, totals=totals(f"{prefix}in", f"{prefix}out"), rests=rests(f"{prefix}in", f"{prefix}rests")
    ) as runtime:
        wait(lambda: place.last("out") == expected(30) and place.last("rests") == expected_rests(30), runtime)
        config, before = runtime.topology("totals").config, len(place.rows("out"))
        blobs = open_blobs(config.checkpoint_dir, fsync=False)
        identity = checkpoint_id_of(blobs)
        runtime.remove_topology("totals", delete_state=True)
        assert not is_in_log(config, place.log)
        runtime.add_topology("totals", totals(f"{prefix}in", f"{prefix}out"), OF_TOPOLOGIES)
        wait(lambda: len(place.rows("out")) > before and place.last("out") == expected(30), runtime)
        assert checkpoint_id_of(blobs) != identity
        place.put("in", amounts(30, 40))
        wait(lambda: place.last("out") == expected(40) and place.last("rests") == expected_rests(40), runtime)


def owner_of(place: Place, name: str) -> str | None:
    """The runtime whose slots publish a topology, as the log has it."""
    ids = SlotIds(place.config)
    owner = ids.owner(f"{place.application_id}-{name}")
    ids.close()
    return owner.runtime if owner is not None else None


@pytest.mark.kafka
@pytest.mark.slow
def test_an_application_on_kafka_goes_to_a_runtime_and_back_and_each_result_comes_once(kafka_place: Place) -> None:
    place = kafka_place
    topics(place, "in", "out")
    copied = copy_of(f"{place.prefix}in", f"{place.prefix}out")
    place.put("in", amounts(0, 20))
    place.run(copied)
    runtime = runtime_of(place, application_id="shared")
    runtime.add_topology("copy", copied, OF_TOPOLOGIES, application_id=place.application_id)
    with runtime:
        runtime.start()
        place.put("in", amounts(20, 40))
        wait(lambda: len(place.rows("out")) >= 40, runtime)
    place.put("in", amounts(40, 50))
    assert place.run(copied).progress().consumed == 10
    assert sorted(row[1]["amount"] for row in place.rows("out")) == list(range(50))


def copy_of(source: str, sink: str) -> Topology:
    """A copy, without state."""
    builder = StreamsBuilder()
    builder.stream(source, Consumed.with_(TEXT, JSON)).map_values(dict).to(sink, WRITTEN)
    return builder.build()


def test_a_topology_that_fails_concerns_no_other_and_goes_on_after_a_restart(place: Place) -> None:
    topics(place, "in", "out", "bad", "copies")
    place.put("bad", amounts(12, 13))
    with running(place, totals=totals(), bad=unlucky("bad", "copies")) as runtime:
        wait(lambda: len(place.rows("copies")) == 1, runtime)
        place.put("bad", amounts(13, 14))
        wait(lambda: runtime.topology("bad").state is State.ERROR, runtime)
        error = runtime.topology("bad").error
        assert error is not None and "test_shared_runtime.py" in str(error) and "thirteen" in str(error)
        assert [failure.error for failure in runtime.topology("bad").errors] == [error]
        place.put("in", amounts(0, 20))
        wait(lambda: place.last("out") == expected(20), runtime)
        again = runtime.restart("bad")
        wait(lambda: again.state is State.ERROR, runtime)  # the record is still there
        runtime.remove_topology("bad")
        runtime.add_topology("bad", totals("bad", "copies"), {**OF_TOPOLOGIES}, application_id="another")
        wait(lambda: "k6" in place.last("copies"), runtime)


def test_a_topology_that_cannot_start_is_not_kept(place: Place) -> None:
    topics(place, "in", "out")
    with running(place, totals=totals()) as runtime:
        with pytest.raises(HayaseError, match="nowhere"):
            runtime.add_topology("bad", totals("nowhere"))
        with pytest.raises(TopologyError, match="UNKNOWN_TOPOLOGY"):
            runtime.topology("bad")
        place.put("in", amounts(0, 20))
        wait(lambda: place.last("out") == expected(20), runtime)


def test_a_paused_topology_reads_nothing_also_after_a_restart_of_the_runtime(place: Place) -> None:
    topics(place, "in", "out", "rests")
    with running(place, totals=totals(), rests=rests("in", "rests")) as runtime:
        runtime.pause("totals")
        place.put("in", amounts(0, 20))
        wait(lambda: place.last("rests") == expected_rests(20), runtime)
        assert place.last("out") == {}
    with runtime_of(place) as again:  # the program adds nothing: the runtime remembers
        again.start()
        place.put("in", amounts(20, 40))
        wait(lambda: place.last("rests") == expected_rests(40), again)
        assert place.last("out") == {} and again.topology("totals").is_paused
        again.resume("totals")
        wait(lambda: place.last("out") == expected(40), again)


def test_a_removed_topology_leaves_its_state_unless_it_is_to_be_deleted(place: Place) -> None:
    topics(place, "in", "out")
    place.put("in", amounts(0, 20))
    with running(place, totals=totals()) as runtime:
        wait(lambda: place.last("out") == expected(20), runtime)
        config = runtime.topology("totals").config
        runtime.remove_topology("totals")
        place.put("in", amounts(20, 30))
        runtime.add_topology("totals", totals(), OF_TOPOLOGIES)
        wait(lambda: place.last("out") == expected(30), runtime)
        runtime.remove_topology("totals", delete_state=True)
        assert not is_in_log(config, place.log)
        before = len(place.rows("out"))
        runtime.add_topology("totals", totals(), OF_TOPOLOGIES)
        wait(lambda: len(place.rows("out")) > before and place.last("out") == expected(30), runtime)


def test_the_state_of_a_stopped_application_is_adopted(place: Place) -> None:
    topics(place, "in", "out")
    place.put("in", amounts(0, 20))
    place.run(totals())
    runtime = runtime_of(place, application_id="shared")
    runtime.add_topology("totals", totals(), OF_TOPOLOGIES, application_id=place.application_id)
    with runtime:
        runtime.start()
        place.put("in", amounts(20, 40))
        wait(lambda: place.last("out") == expected(40), runtime)
        wait(lambda: runtime.topology("totals").progress().consumed == 20, runtime)
    place.put("in", amounts(40, 50))
    assert place.run(totals()).progress().consumed == 10


def test_a_run_to_the_end_runs_topologies_after_those_whose_results_they_read(place: Place) -> None:
    topics(place, "in", "out", "again")
    place.put("in", amounts(0, 30))
    builder = StreamsBuilder()
    builder.stream("out", Consumed.with_(TEXT, Serdes.json(schema={"n": pl.Int64}))).to("again", WRITTEN)
    runtime = runtime_of(place)
    runtime.add_topology("copy", builder.build(), OF_TOPOLOGIES)
    runtime.add_topology("totals", totals(), OF_TOPOLOGIES)
    reports = runtime.run_to_end(after={"copy": {"totals"}})
    assert reports["totals"].consumed == 30
    assert {key: value["n"] for key, value in place.last("again").items()} == {
        key: value["n"] for key, value in expected(30).items()
    }


def test_rows_that_are_many_go_to_the_next_level_through_files(place: Place) -> None:
    topics(place, "in", "rests")
    many = 2 * outgoing_rows.ROWS_BYTES_MAX // 100
    place.put("in", [(f"k{i}", {"amount": i, "padding": "x" * 100}, i) for i in range(many)])
    with running(place, rests=rests("in", "rests")) as runtime:
        wait(lambda: place.last("rests") == expected_rests(many), runtime)


def test_worker_processes_that_are_killed_are_replaced_and_nothing_is_lost_or_doubled(place: Place) -> None:
    topics(place, "in", "out", "rests")
    with running(place, totals=totals(), rests=rests("in", "rests")) as runtime:
        for first in range(0, 60, 20):
            place.put("in", amounts(first, first + 20))
            wait(lambda last=first + 20: place.last("out") == expected(last), runtime)  # type: ignore[misc]
            for worker in _workers():
                os.kill(worker, signal.SIGKILL)
        place.put("in", amounts(60, 80))
        wait(lambda: place.last("out") == expected(80) and place.last("rests") == expected_rests(80), runtime)
        wait(lambda: {app.state for app in runtime.topologies.values()} == {State.RUNNING}, runtime)


@pytest.mark.kafka
def test_a_topology_far_behind_goes_on_in_processes_of_its_own_beside_others_also_if_one_is_killed(
    kafka_place: Place,
) -> None:
    place, count_of = kafka_place, 400_000
    topics(place, "in", "out", "backlog", "rests")
    for first in range(0, count_of, 50_000):
        place.put("backlog", amounts(first, first + 50_000))
    prefix = place.prefix
    with running(place, totals=totals(f"{prefix}in", f"{prefix}out")) as runtime:
        place.put("in", amounts(0, 10))
        wait(lambda: place.last("out") == expected(10), runtime)
        runtime.add_topology("behind", rests(f"{prefix}backlog", f"{prefix}rests"), OF_TOPOLOGIES)
        wait(lambda: bool(_spares()), runtime)
        os.kill(_spares()[0], signal.SIGKILL)
        place.put("in", amounts(10, 20))
        wait(lambda: place.last("out") == expected(20), runtime)
        wait(lambda: place.last("rests") == expected_rests(count_of), runtime)
        assert runtime.topology("behind").state is State.RUNNING


def test_the_query_and_its_planner_stay_while_topologies_come_go_and_change(place: Place) -> None:
    topics(place, "in", "out", "rests", "late")
    with running(place, totals=totals()) as runtime:
        place.put("in", amounts(0, 20))
        wait(lambda: place.last("out") == expected(20), runtime)
        before = _planners()
        runtime.add_topology("rests", rests("in", "rests"), OF_TOPOLOGIES)
        runtime.add_topology("late", rests("in", "late"), OF_TOPOLOGIES)
        runtime.pause("totals")
        wait(lambda: place.last("late") == expected_rests(20), runtime)
        runtime.remove_topology("late")
        runtime.replace_topology("rests", rests("in", "rests"))
        runtime.restart("rests")
        runtime.resume("totals")
        place.put("in", amounts(20, 40))
        wait(lambda: place.last("out") == expected(40) and place.last("rests") == expected_rests(40), runtime)
        assert len(before) == 1 and _planners() == before


def _planners() -> set[int]:
    """The processes in which Spark has sources planned."""
    children = psutil.Process().children(recursive=True)
    return {each.pid for each in children if "python_streaming_source_runner" in _line(each)}


def _spares() -> list[int]:
    """Processes that sources of spare processes have forked."""
    children = psutil.Process().children(recursive=True)
    sources = {each.pid for each in children if _group(each.pid) == each.pid and "worker.daemon" in _line(each)}
    return [each.pid for each in children if each.ppid() in sources and "worker.daemon" in _line(each)]


def _workers() -> list[int]:
    """The processes in which Spark runs Python for slots: children of the daemons, but the sources of spare processes.

    Such a source leads a process group of its own.
    """
    daemons = [
        process
        for process in psutil.Process().children(recursive=True)
        if "hayase.runtime.worker.daemon" in _line(process)
    ]
    children = [child.pid for daemon in daemons for child in daemon.children()]
    return [child for child in children if _group(child) != child]


def _group(pid: int) -> int | None:
    try:
        return os.getpgid(pid)
    except ProcessLookupError:
        return None


def _line(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


def test_other_processes_ask_a_runtime_to_change(place: Place) -> None:
    topics(place, "in", "out")
    with running(place, totals=totals()) as runtime:
        requests, alive = running_runtime(runtime.config)
        requests.ask(RuntimeRequest("pause", "totals"), 30, alive)
        assert runtime.topology("totals").is_paused
        requests.ask(RuntimeRequest("resume", "totals"), 30, alive)
        with pytest.raises(HayaseError, match="no topology 'other'"):
            requests.ask(RuntimeRequest("restart", "other"), 30, alive)
        place.put("in", amounts(0, 10))
        wait(lambda: place.last("out") == expected(10), runtime)

        def consumed() -> int:
            status = runtime_status(runtime.config)
            return 0 if status is None else status.topologies["totals"].run.consumed

        wait(lambda: consumed() == 10, runtime)  # it is said twice a second
    assert runtime_status(runtime.config) is None
