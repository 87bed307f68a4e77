"""Starting, going on, stopping: nothing is lost and nothing done twice."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import threading
import time
from datetime import timedelta

import pytest
from tests.spark.place import Place, error_of, store_rows, until
from tests.spark.topologies import amounts, expected, totals

from hayase import Consumed, Produced, Serdes, State, StreamsBuilder
from hayase.core.errors import LeaseHeldError, StreamsStoppedError
from hayase.core.records import TopicPartition


def test_a_bounded_run_ends_at_the_end_of_the_input_and_the_next_one_goes_on_from_there(place: Place) -> None:
    place.topic("in"), place.topic("out")
    place.put("in", amounts(0, 100))
    first = place.app(totals())
    seen: list[tuple[State, State]] = []
    first.set_state_listener(lambda new, old: seen.append((old, new)))
    report = first.run_to_end()
    assert (report.consumed, report.produced, report.lag_records, report.late, report.dropped) == (100, 7, 0, 0, 0)
    assert place.last("out") == expected(100)
    order = [State.CREATED, State.REBALANCING, State.RUNNING, State.PENDING_SHUTDOWN, State.NOT_RUNNING]
    assert seen == list(itertools.pairwise(order))
    assert first.error is None

    place.put("in", amounts(100, 130))
    second = place.run(totals())
    assert second.progress().consumed == 30
    assert place.last("out") == store_rows(second, "totals") == expected(130)
    assert not list((place.folder / "state" / place.application_id / "run").iterdir())


def test_offsets_are_committed_to_the_consumer_group_named_like_the_application(place: Place) -> None:
    place.topic("in"), place.topic("out")
    place.put("in", amounts(0, 50))
    place.run(totals())
    ends = place.log.end_offsets([TopicPartition("in", 0), TopicPartition("in", 1)])
    assert place.log.group_offsets(place.application_id) == ends
    assert sum(ends.values()) == 50


def test_a_continuous_run_takes_what_is_appended_and_after_close_the_next_start_goes_on(place: Place) -> None:
    place.topic("in"), place.topic("out")
    place.put("in", amounts(0, 10))
    app = place.app(totals(), max_records_per_epoch=20)
    app.start()
    until(lambda: place.last("out") == expected(10), app)
    assert app.state is State.RUNNING
    place.put("in", amounts(10, 200))
    until(lambda: app.progress().consumed >= 40, app)
    assert app.close() is True  # with input left over, most likely
    assert app.state is State.NOT_RUNNING
    done = app.progress().consumed
    assert app.close() is True
    second = place.run(totals(), max_records_per_epoch=20)
    assert done + second.progress().consumed == 200
    assert place.last("out") == store_rows(second, "totals") == expected(200)


def test_without_a_cache_every_update_is_written_once_across_restarts_and_other_thread_counts(place: Place) -> None:
    place.topic("in", 5), place.topic("out", 1)
    for number, threads in enumerate((2, 1, 4)):
        place.put("in", amounts(number * 40, number * 40 + 40))
        place.run(totals(), num_stream_threads=threads, statestore_cache_max_bytes=0, max_records_per_epoch=15)
    assert place.last("out") == expected(120)
    updates = sorted((row.key, row.value["n"]) for row in place.rows("out"))
    assert updates == sorted((key, n) for key, row in expected(120).items() for n in range(1, row["n"] + 1))


def test_an_application_without_input_runs_to_its_end_and_starts_again(place: Place) -> None:
    place.topic("in"), place.topic("out")
    assert place.run(totals()).progress().consumed == 0
    place.put("in", amounts(0, 3))
    assert place.run(totals()).progress().consumed == 3


def test_a_second_copy_is_refused_and_leaves_the_first_alone(place: Place) -> None:
    place.topic("in"), place.topic("out")
    place.put("in", amounts(0, 10))
    with place.app(totals()) as app:
        app.start()
        second = place.app(totals())
        refused = error_of(second.start)
        assert isinstance(refused, LeaseHeldError)
        assert refused.condition == "LEASE_HELD"
        assert second.state is State.ERROR
        assert second.error is refused
        until(lambda: place.last("out") == expected(10), app)
    assert app.state is State.NOT_RUNNING


def test_close_while_starting_stops_it_as_soon_as_it_has_started(place: Place) -> None:
    place.topic("in"), place.topic("out")
    app = place.app(totals())
    starter = threading.Thread(target=app.start)
    starter.start()
    until(lambda: app.state is not State.CREATED)
    app.close()
    starter.join()
    assert app.wait(timedelta(seconds=60))
    assert app.state is State.NOT_RUNNING
    with pytest.raises(StreamsStoppedError):
        app.start()


def test_run_to_end_with_a_timeout_stops_and_the_next_start_finishes(place: Place) -> None:
    place.topic("in"), place.topic("out")
    place.put("in", amounts(0, 40))

    def slow(value: dict[str, int]) -> dict[str, int]:
        time.sleep(0.05)
        return value

    builder = StreamsBuilder()
    serdes = Consumed.with_(Serdes.string(), Serdes.json())
    builder.stream("in", serdes).map_values(slow).to("out", Produced.with_(Serdes.string(), Serdes.json()))
    topology = builder.build()
    app = place.app(topology, max_records_per_epoch=10)
    error = error_of(lambda: app.run_to_end(timedelta(milliseconds=100)))
    assert error.condition == "TIMED_OUT"
    assert app.state is State.NOT_RUNNING
    place.run(topology)
    assert sorted(row.value["amount"] for row in place.rows("out")) == list(range(40))


def test_two_applications_of_one_process_run_side_by_side_and_feed_each_other(place: Place) -> None:
    place.topic("in"), place.topic("middle"), place.topic("out")
    place.put("in", amounts(0, 20))
    builder = StreamsBuilder()
    serdes = Consumed.with_(Serdes.string(), Serdes.json())
    builder.stream("in", serdes).to("middle", Produced.with_(Serdes.string(), Serdes.json()))
    with place.app(builder.build(), application_id="first") as first, place.app(totals("middle")) as second:
        first.start()
        second.start()
        until(lambda: place.last("out") == expected(20), second)
        assert first.close()
        place.put("middle", amounts(20, 30))
        until(lambda: place.last("out") == expected(30), second)


READER = """
import json, sys, time
from tests.spark.topologies import totals
from hayase import StreamsApp
store = StreamsApp(totals(), json.loads(sys.argv[1])).store("totals")
seen = []
while not seen or seen[-1][2] < 60:
    answer, rows = store.get("k1"), store.all()
    n = sum(row.value["n"] for row in rows)
    if not seen or answer.epoch > seen[-1][0] or rows.epoch > seen[-1][1]:
        seen.append((answer.epoch, rows.epoch, n))
    assert len(set(rows.epochs.values())) == 1
    time.sleep(0.01)
print(json.dumps({"seen": seen, "k1": store.get("k1").value, "range": [row.key for row in store.range("k1", "k3")],
                  "none": store.get("nobody").value, "count": store.approximate_num_entries()}))
"""


def test_another_process_reads_the_store_while_the_job_runs_and_each_answer_names_its_epoch(place: Place) -> None:
    place.topic("in", 3), place.topic("out")
    place.put("in", amounts(0, 10))
    with place.app(totals()) as app:
        app.start()
        until(lambda: app.progress().consumed == 10, app)
        given = json.dumps(place.settings())
        reader = subprocess.Popen([sys.executable, "-c", READER, given], stdout=subprocess.PIPE, text=True)
        for number in range(1, 6):
            place.put("in", amounts(number * 10, number * 10 + 10))
            until(lambda wanted=number * 10 + 10: app.progress().consumed == wanted, app)  # type: ignore[misc]
        told, _ = reader.communicate(timeout=60)
    found = json.loads(told)
    epochs = [epoch for epoch, _, _ in found["seen"]]
    assert epochs == sorted(epochs)
    assert [n for _, _, n in found["seen"]] == sorted(n for _, _, n in found["seen"])
    assert found["seen"][-1][2] == 60
    assert found["k1"] == expected(60)["k1"]
    assert sorted(found["range"]) == ["k1", "k2", "k3"]
    assert found["none"] is None
    assert found["count"] == 7


@pytest.mark.kafka
def test_on_kafka_a_run_goes_on_where_the_last_one_ended_and_commits_its_offsets(kafka_place: Place) -> None:
    source, sink = kafka_place.topic("in"), kafka_place.topic("out")
    for start in (0, 60):
        kafka_place.put("in", amounts(start, start + 60))
        kafka_place.run(totals(source, sink), max_records_per_epoch=25)
    assert kafka_place.last("out") == expected(120)
    ends = kafka_place.log.end_offsets([TopicPartition(source, 0), TopicPartition(source, 1)])
    assert kafka_place.log.group_offsets(kafka_place.application_id) == ends
