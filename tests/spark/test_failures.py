"""What goes wrong on Spark, and how the application says so.

What needs no Spark to be shown is in tests/unit/testing.
"""

from __future__ import annotations

import threading
from datetime import timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from tests.spark.place import Place, error_of, store_rows, until
from tests.spark.topologies import JSON, TEXT, WRITTEN, totals

from hayase import (
    Consumed,
    ErrorContext,
    Grouped,
    HandlerAnswer,
    Materialized,
    Serdes,
    State,
    StreamsBuilder,
    TimeWindows,
    Topology,
    count,
    left,
    right,
    sum_,
)
from hayase.cli.main import run_cli
from hayase.core.errors import (
    CheckpointError,
    ConfigError,
    ProcessingError,
    SerializationError,
    SourceRangeLostError,
    TopologyError,
    UnknownTopicError,
)

GOOD = {"amount": 1}


def test_a_malformed_record_stops_the_application_with_an_error_that_says_where(place: Place) -> None:
    place.topic("in", 1), place.topic("out")
    place.put("in", [("a", GOOD, 0), ("a", b"nonsense", 1)])
    app = place.app(totals())
    error = error_of(app.run_to_end)
    assert isinstance(error, SerializationError)
    assert error.condition == "DESERIALIZATION_FAILED"
    assert {"task": "0_0", "topic": "in", "partition": "0", "offset": "1"}.items() <= dict(error.context).items()
    assert error.context["node"] == "KSTREAM-SOURCE-0000000000"
    assert app.state is State.ERROR
    assert app.error is error
    assert "\n" not in str(error)
    assert place.rows("out") == []  # nothing of the epoch is published


def test_a_program_that_runs_an_application_fails_as_it_does_and_ends_when_it_is_closed(place: Place) -> None:
    place.topic("in", 1), place.topic("out")
    place.put("in", [("a", GOOD, 0)])
    app = place.app(totals())
    running = threading.Thread(target=app.run)
    running.start()
    until(lambda: place.last("out") == {"a": {"n": 1, "total": 1}})
    app.close()
    running.join(60)
    assert not running.is_alive() and app.state is State.NOT_RUNNING
    place.put("in", [("a", b"nonsense", 1)])
    failing = place.app(totals())
    assert error_of(failing.run) is failing.error is not None


def test_malformed_records_go_to_the_dead_letter_topic_and_the_rest_goes_on(place: Place) -> None:
    place.topic("in", 1), place.topic("out")
    place.put("in", [("a", GOOD, 5), ("a", b"nonsense", 6), ("b", GOOD, 7)], headers=(("trace", b"t1"),))
    app = place.run(
        totals(),
        deserialization_exception_handler="dead_letter",
        errors_dead_letter_queue_topic_name="dead",
    )
    assert place.last("out") == {"a": {"n": 1, "total": 1}, "b": {"n": 1, "total": 1}}
    assert [(row.key, row.value, row.timestamp_ms) for row in place.rows("dead")] == [("a", b"nonsense", 6)]
    (headers,) = place.headers("dead")
    assert headers["trace"] == "t1"
    names = ("exception", "message", "stacktrace", "topic", "partition", "offset")
    found = {name: headers[f"__streams.errors.{name}"] for name in names}
    assert (found["topic"], found["partition"], found["offset"]) == ("in", "0", "1")
    assert found["exception"].endswith("SerializationError")
    assert "nonsense" in found["message"]
    assert "nonsense" in found["stacktrace"]
    progress = app.progress()
    assert (progress.dead_letters, progress.dropped) == (1, 1)


def test_a_handler_of_ones_own_decides_record_by_record(place: Place) -> None:
    place.topic("in", 1), place.topic("out")
    place.put("in", [("a", b"one", 0), ("a", GOOD, 1), ("a", b"two", 2)])

    def handler(context: ErrorContext, error: Exception) -> HandlerAnswer:
        return HandlerAnswer.CONTINUE if context.raw_value == b"one" else HandlerAnswer.FAIL

    error = error_of(place.app(totals(), deserialization_exception_handler=handler).run_to_end)
    assert error.context["offset"] == "2"


def build_with(function: Any) -> Topology:
    builder = StreamsBuilder()
    stream = builder.stream("in", Consumed.with_(TEXT, JSON)).map_values(function)
    stream.to("mapped", WRITTEN)
    table = stream.group_by_key().aggregate(
        lambda: {"total": 0},
        lambda _, value, row: {"total": row["total"] + value["amount"]},
        Materialized.as_("totals"),
    )
    table.to_stream().to("out", WRITTEN)
    return builder.build()


def test_an_epoch_that_user_code_broke_is_finished_when_the_code_is_fixed(place: Place) -> None:
    place.topic("in"), place.topic("mapped"), place.topic("out")
    place.put("in", [(f"k{i % 5}", {"amount": i}, i) for i in range(40)])

    def broken(value: dict[str, int]) -> dict[str, int]:
        if value["amount"] == 33:
            raise RuntimeError("not this one")
        return value

    app = place.app(build_with(broken), max_records_per_epoch=20, statestore_cache_max_bytes=0)
    error = error_of(app.run_to_end)
    assert isinstance(error, ProcessingError)
    assert "RuntimeError: not this one" in error.message
    assert {"node", "task", "topic", "partition", "offset"} <= error.context.keys()
    fixed = place.run(build_with(lambda value: value), max_records_per_epoch=20, statestore_cache_max_bytes=0)
    assert store_rows(fixed, "totals") == {f"k{k}": {"total": sum(range(k, 40, 5))} for k in range(5)}
    assert sorted(row.value["amount"] for row in place.rows("mapped")) == list(range(40))


def test_an_unknown_source_or_sink_topic_is_named_at_the_start(place: Place) -> None:
    app = place.app(totals())
    error = error_of(app.start)
    assert isinstance(error, UnknownTopicError)
    assert (error.condition, app.state) == ("UNKNOWN_TOPIC", State.ERROR)
    assert "in" in error.message
    place.topic("in")
    error = error_of(place.app(totals()).run_to_end)
    assert error.condition == "UNKNOWN_TOPIC"
    assert "out" in error.message
    place.topic("out")
    place.run(totals())


def test_joined_topics_with_different_partition_counts_are_refused_by_name(place: Place) -> None:
    place.topic("orders", 2), place.topic("users", 3), place.topic("out")
    builder = StreamsBuilder()
    typed = Consumed.with_(TEXT, JSON)
    joined = builder.stream("orders", typed).join(builder.table("users", typed), lambda order, user: order)
    joined.to("out", WRITTEN)
    error = error_of(place.app(builder.build()).start)
    assert isinstance(error, TopologyError)
    assert error.condition == "PARTITIONS_DIFFER"
    assert "orders has 2" in error.message
    assert "users has 3" in error.message


def test_a_value_that_the_sink_cannot_write_goes_to_the_production_handler(place: Place) -> None:
    place.topic("in", 1), place.topic("mapped"), place.topic("out")
    place.put("in", [("a", {"amount": 1}, 0), ("a", {"amount": 2}, 1)])

    def unwritable(value: dict[str, int]) -> dict[str, Any]:
        return {"amount": 0, "bad": object()} if value["amount"] == 1 else value

    builder = StreamsBuilder()
    builder.stream("in", Consumed.with_(TEXT, JSON)).map_values(unwritable).to("out", WRITTEN)
    topology = builder.build()
    error = error_of(place.app(topology).run_to_end)
    assert error.condition == "PRODUCTION_FAILED"
    assert error.context["offset"] == "0"
    app = place.run(topology, production_exception_handler="log_and_continue")
    assert [row.value for row in place.rows("out")] == [{"amount": 2}]
    assert app.progress().dropped == 1


def test_a_topic_made_anew_while_stopped_is_a_lost_range(place: Place) -> None:
    place.topic("in"), place.topic("out")
    place.put("in", [("a", GOOD, 0)])
    place.run(totals())
    place.log.delete_topic("in")
    place.topic("in")
    place.put("in", [("a", GOOD, 0), ("b", GOOD, 0)])
    app = place.app(totals())
    error = error_of(app.run_to_end)
    assert isinstance(error, SourceRangeLostError)
    assert error.condition == "SOURCE_RANGE_LOST"
    assert "deleted and recreated" in error.message
    assert error.context["topic"] == "in"
    assert app.state is State.ERROR


def test_partitions_added_while_stopped_are_refused_with_an_explanation(place: Place) -> None:
    place.topic("in", 2), place.topic("out")
    place.put("in", [("a", GOOD, 0)])
    place.run(totals())
    place.log.delete_topic("in")
    place.topic("in", 3)
    error = error_of(place.app(totals()).start)
    assert isinstance(error, TopologyError)
    assert error.condition == "PARTITIONS_CHANGED"
    assert "has 3 partitions; the application was started with 2" in error.message


def test_another_topology_on_an_old_checkpoint_is_refused_with_what_differs(place: Place) -> None:
    place.topic("in"), place.topic("out")
    place.run(totals())
    builder = StreamsBuilder()
    windowed = (
        builder.stream("in", Consumed.with_(TEXT, JSON))
        .group_by_key()
        .windowed_by(TimeWindows.of_size_with_no_grace(timedelta(seconds=1)))
    )
    windowed.agg(Materialized.as_("totals"), n=count())
    error = error_of(place.app(builder.build()).start)
    assert isinstance(error, CheckpointError)
    assert error.condition == "PLAN_CHANGED"
    assert "store totals was timestamped_key_value, would be timestamped_window" in error.message
    assert "sub-topology 0 has" in error.message


def test_a_function_that_holds_a_lock_cannot_travel_and_says_so(place: Place) -> None:
    place.topic("in"), place.topic("mapped"), place.topic("out")
    lock = threading.Lock()

    def locked(value: Any) -> Any:
        with lock:
            return value

    app = place.app(build_with(locked))
    error = error_of(app.start)
    assert isinstance(error, ConfigError)
    assert error.condition == "NOT_PICKLABLE"
    assert "in locked uses 'lock', a _thread.lock" in error.message
    assert app.state is State.ERROR


def test_an_error_is_told_once_by_the_command_and_names_the_users_line(
    place: Place, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    place.topic("in"), place.topic("mapped"), place.topic("out")
    place.put("in", [("a", {"amount": 1}, 1)])
    program = tmp_path / "shop.py"
    program.write_text(
        "from hayase import *\nprices = {}\ndef price(value):\n    return prices['GBP']\nbuilder = StreamsBuilder()\n"
        "builder.stream('in', Consumed.with_(Serdes.string(), Serdes.json())).map_values(price).to('out')\n"
    )
    settings = [f"{key}={value}" for key, value in place.settings().items()]
    arguments = [part for setting in settings for part in ("-c", setting)]
    for end in (["--to-end"], []):
        assert run_cli(["run", str(program), *arguments, *end]) == 1
        told = capfd.readouterr()
        assert (told.err + told.out).count("KeyError: 'GBP'") == 1, told.err
        assert "shop.py:4 in price: KeyError: 'GBP'" in told.err


def test_an_error_that_is_raised_is_not_logged_as_well(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    place.topic("in", 1), place.topic("out")
    place.put("in", [("a", b"nonsense", 1)])
    error_of(place.app(totals()).run_to_end)
    assert "the application failed" not in caplog.text
    app = place.app(totals())
    app.start()
    app.wait()
    assert caplog.text.count("the application failed") == 1


def test_spark_writes_no_traces_on_the_terminal(place: Place, capfd: pytest.CaptureFixture[str]) -> None:
    place.topic("in", 1), place.topic("out")
    place.put("in", [("a", b"nonsense", 1)])
    error_of(place.app(totals()).run_to_end)
    told = capfd.readouterr()
    assert "Exception" not in told.err + told.out
    assert "\tat " not in told.err + told.out


@pytest.mark.kafka
def test_on_kafka_dead_letters_have_the_same_headers_and_unknown_topics_the_same_error(kafka_place: Place) -> None:
    source, sink = f"{kafka_place.prefix}in", f"{kafka_place.prefix}out"
    assert error_of(kafka_place.app(totals(source, sink)).start).condition == "UNKNOWN_TOPIC"
    kafka_place.topic("in", 1), kafka_place.topic("out")
    kafka_place.put("in", [("a", GOOD, 5), ("a", b"nonsense", 6)])
    kafka_place.run(
        totals(source, sink),
        deserialization_exception_handler="dead_letter",
        errors_dead_letter_queue_topic_name=f"{kafka_place.prefix}dead",
    )
    assert kafka_place.last("out") == {"a": {"n": 1, "total": 1}}
    (headers,) = kafka_place.headers("dead")
    assert (headers["__streams.errors.topic"], headers["__streams.errors.offset"]) == (source, "1")


@pytest.mark.kafka
def test_on_kafka_joins_and_shuffles_in_both_forms_write_the_same(kafka_place: Place) -> None:
    names = {name: kafka_place.topic(name) for name in ("orders", "users", "rows", "columns")}
    kafka_place.put("users", [(f"u{i}", {"region": f"r{i % 3}"}, i) for i in range(9)])
    kafka_place.put("orders", [(f"u{i % 10}", {"amount": i}, 100 + i) for i in range(200)])
    for form in ("rows", "columns"):
        builder = StreamsBuilder()
        orders = builder.stream(names["orders"], Consumed.with_(TEXT, Serdes.json(schema={"amount": pl.Int64})))
        users = builder.table(names["users"], Consumed.with_(TEXT, Serdes.json(schema={"region": pl.String})))
        joined = orders.join(users, {"amount": left("amount"), "region": right("region")})
        table = joined.group_by(pl.col("region"), Grouped.with_(TEXT)).agg(n=count(), total=sum_("amount"))
        table.to_stream().to(names[form], WRITTEN)
        kafka_place.run(
            builder.build(),
            application_id=f"{kafka_place.prefix}{form}",
            processing_form=form,
            statestore_cache_max_bytes=0,
        )
    assert kafka_place.partitions("rows") == kafka_place.partitions("columns")
    known = [i for i in range(200) if i % 10 != 9]
    expected = {f"r{r}": [i for i in known if i % 10 % 3 == r] for r in range(3)}
    assert kafka_place.last("rows") == {r: {"n": len(a), "total": sum(a)} for r, a in expected.items()}
