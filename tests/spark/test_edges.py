"""Surroundings that change beneath a running application."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka.admin import AdminClient, NewPartitions
from tests.spark import place as places
from tests.spark.place import Place, error_of, store_rows
from tests.spark.topologies import JSON, TEXT, WRITTEN, amounts, expected, totals

from hayase import Consumed, State, StreamsBuilder
from hayase.core.errors import SourceRangeLostError, TopologyError
from hayase.log.protocol import LogConfig
from hayase.testing.kafka_broker import PATIENT, KafkaBroker

pytestmark = pytest.mark.timeout(600)
until = partial(places.until, seconds=240)  # time for the start of an application on a busy machine


def test_a_topic_deleted_and_made_anew_while_it_runs_is_a_lost_range(place: Place) -> None:
    place.topic("in"), place.topic("out")
    place.put("in", amounts(0, 10))
    app = place.app(totals())
    app.start()
    until(lambda: app.progress().consumed == 10, app)
    app.pause()  # so that the topic is seen again only when it is another one
    until(app._runner.run.control.suspended, app)
    place.log.delete_topic("in")
    place.topic("in")
    place.put("in", amounts(0, 20))
    app.resume()
    assert app.wait()
    assert isinstance(app.error, SourceRangeLostError)
    assert "deleted and recreated" in app.error.message
    assert place.last("out") == expected(10)  # nothing of the other topic was taken for a continuation


@pytest.mark.kafka
def test_partitions_added_while_it_runs_stop_it_with_an_explanation(kafka_place: Place) -> None:
    source, sink = kafka_place.topic("in"), kafka_place.topic("out")
    kafka_place.put("in", amounts(0, 10))
    app = kafka_place.app(totals(source, sink))
    app.start()
    until(lambda: app.progress().consumed == 10, app)
    admin = AdminClient({"bootstrap.servers": kafka_place.config.location})
    admin.create_partitions([NewPartitions(source, 4)])[source].result(30)
    kafka_place.put("in", amounts(10, 20))
    assert app.wait()
    assert isinstance(app.error, TopologyError)
    assert app.error.condition == "PARTITIONS_CHANGED"
    assert "has 4 partitions; the application was started with 2" in app.error.message
    assert "hayase app reset" in app.error.message


@pytest.mark.kafka
def test_a_range_lost_to_retention_is_an_error_and_never_a_silent_gap(kafka_place: Place) -> None:
    source, sink = kafka_place.topic("in", 1), kafka_place.topic("out")
    kafka_place.put("in", amounts(0, 10))
    kafka_place.run(totals(source, sink))
    kafka_place.put("in", amounts(10, 30))
    admin = AdminClient({"bootstrap.servers": kafka_place.config.location})
    cut = KafkaPartition(source, 0, 15)
    admin.delete_records([cut])[cut].result(30)
    app = kafka_place.app(totals(source, sink))
    error = error_of(app.run_to_end)
    assert isinstance(error, SourceRangeLostError)
    assert error.condition == "SOURCE_RANGE_LOST"
    assert (error.context["topic"], error.context["partition"]) == (source, "0")
    assert "retention" in error.message
    assert kafka_place.last("out") == expected(10)


def test_a_slow_sink_slows_the_application_down_and_nothing_piles_up_or_is_lost(place: Place, tmp_path: Path) -> None:
    place.topic("in", 1), place.topic("out", 1)
    place.put("in", amounts(0, 60))

    def slow(value: dict[str, int]) -> dict[str, int]:
        time.sleep(0.01)
        return value

    builder = StreamsBuilder()
    builder.stream("in", Consumed.with_(TEXT, JSON)).map_values(slow).to("out", WRITTEN)
    app = place.app(builder.build(), max_records_per_epoch=10)
    app.start()
    until(lambda: app.progress().epochs >= 2, app)
    place.put("in", amounts(60, 90))
    assert app.close() is True  # between epochs, with input left over
    written = len(place.rows("out"))
    assert written == app.progress().consumed  # what was begun is written, and nothing else
    assert written % 10 == 0
    place.run(builder.build(), max_records_per_epoch=10)
    assert [row.value["amount"] for row in place.rows("out")] == list(range(90))


@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_brokers_that_go_away_and_come_back_are_waited_for(spark: None, tmp_path: Path) -> None:
    with KafkaBroker(tmp_path / "broker", start_timeout_s=300, extra_config=PATIENT) as broker:
        config = LogConfig("kafka", broker.bootstrap_servers)
        with Place(tmp_path, config) as place:
            place.topic("in"), place.topic("out")
            place.put("in", amounts(0, 20))
            with place.app(totals()) as app:
                app.start()
                until(lambda: place.last("out") == expected(20), app)
                broker.stop()  # not by SIGKILL right after a commit; see KafkaBroker.kill
                until(lambda: app.progress().waiting != "", app, seconds=180)
                assert app.state in (State.RUNNING, State.REBALANCING)
                broker.start()
                place.put("in", amounts(20, 60))
                until(lambda: place.last("out") == expected(60), app, seconds=240)
                assert app.error is None
                assert store_rows(app, "totals") == expected(60)
                assert app.close()
