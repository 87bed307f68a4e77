"""`from_connector` and `to_connector` without Spark."""

import sqlite3
import time
from contextlib import closing

import polars as pl
import pytest

from hayase import Consumed, Produced, Serdes, StreamsBuilder
from hayase.app.program_connectors import connectors_of
from hayase.cli.describe import connector_lines
from hayase.compiler.options import configured
from hayase.connect.program_converters import converter_settings
from hayase.core.config import StreamsConfig
from hayase.core.errors import HayaseError, TopologyError
from hayase.core.records import TopicPartition
from hayase.log.open import open_log
from hayase.log.protocol import LogConfig, OutputBatch
from hayase.serde.registry import SchemaRegistry
from hayase.testing import TopologyTestDriver
from hayase.testing.schema_registry import SchemaRegistryServer

ORDERS = Serdes.json(schema={"id": pl.Int64, "total": pl.Float64})


def wait_for(condition, seconds=20):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)


def lines_to_upper_case(folder):
    builder = StreamsBuilder()
    source = {"connector.class": "FileStreamSource", "file": str(folder / "in.txt")}
    lines = builder.from_connector("lines", source, Consumed.with_(Serdes.bytes(), Serdes.string()))
    sink = {"connector.class": "FileStreamSink", "file": str(folder / "out.txt")}
    lines.map_values(str.upper).to_connector("upper", sink, Produced.with_(Serdes.bytes(), Serdes.string()))
    return builder.build()


def opened(topology, folder, **settings):
    folders = {"log.dir": str(folder / "log"), "state.dir": str(folder / "s")}
    config = StreamsConfig({"application.id": "shop", **folders, **settings})
    log = open_log(LogConfig("embedded", str(folder / "log")))
    topology = configured(topology, config)
    for topic in topology.internal_topics:
        if not log.describe([topic]):
            log.create_topic(topic, 1)
    log.close()
    return connectors_of(topology, config)


def values(folder, topic):
    log = open_log(LogConfig("embedded", str(folder / "log")))
    end = log.end_offsets([TopicPartition(topic, 0)])[TopicPartition(topic, 0)]
    found = [v for batch in log.reader().fetch(TopicPartition(topic, 0), 0, end) for v in batch.values]
    log.close()
    return found


def test_the_test_driver_feeds_a_source_and_reads_a_sink_by_the_names_of_their_connectors(tmp_path):
    with TopologyTestDriver(lines_to_upper_case(tmp_path)) as driver:
        driver.create_input_topic("lines", Serdes.bytes(), Serdes.string()).pipe_input(None, "book")
        assert driver.create_output_topic("upper", Serdes.bytes(), Serdes.string()).read_value() == "BOOK"


@pytest.mark.long
def test_a_source_is_at_its_end_when_it_has_rested_and_goes_on_behind_its_offset(tmp_path):
    (tmp_path / "in.txt").write_text("one\ntwo\n")
    topic = "shop-lines-from-connector"
    for expected in ([b"one", b"two"], [b"one", b"two", b"three"]):
        connectors = opened(lines_to_upper_case(tmp_path), tmp_path)
        connectors.start(sources=True)
        wait_for(connectors.sources_at_end)
        connectors.close()
        assert values(tmp_path, topic) == expected
        with (tmp_path / "in.txt").open("a") as file:
            file.write("three\n" if len(expected) == 2 else "")


@pytest.mark.long
def test_a_source_begins_anew_when_its_offsets_are_forgotten(tmp_path):
    (tmp_path / "in.txt").write_text("one\n")
    for times in (1, 2):
        connectors = opened(lines_to_upper_case(tmp_path), tmp_path)
        connectors.forget_offsets()
        connectors.start(sources=True)
        wait_for(connectors.sources_at_end)
        connectors.close()
        assert values(tmp_path, "shop-lines-from-connector") == [b"one"] * times


def test_sinks_are_at_their_end_when_they_have_written_what_was_there(tmp_path):
    builder = StreamsBuilder()
    orders = builder.stream("orders", Consumed.with_(Serdes.string(), ORDERS))
    table = {"connector.class": "SqliteSink", "connection.path": str(tmp_path / "shop.db"), "auto.create": True}
    table |= {"insert.mode": "upsert", "primary.key.mode": "record_value", "primary.key.fields": "id"}
    orders.to_connector("orders_of_today", table)
    connectors = opened(builder.build(), tmp_path)
    log = open_log(LogConfig("embedded", str(tmp_path / "log")))
    writer = log.writer()
    rows = [b'{"id": %d, "total": 2.5}' % number for number in range(100)]
    writer.append([OutputBatch("shop-orders_of_today-to-connector", [b"k"] * 100, rows, [0] * 100)])
    writer.close()
    log.close()
    connectors.start(sources=False)
    wait_for(connectors.sinks_at_end)
    assert connectors.stop(sources=False) is None
    connectors.close()
    with sqlite3.connect(tmp_path / "shop.db") as database:
        assert database.execute("SELECT count(*), sum(total) FROM orders_of_today").fetchone() == (100, 250.0)


def _to_a_table(folder):
    builder = StreamsBuilder()
    orders = builder.stream("orders", Consumed.with_(Serdes.string(), ORDERS))
    table = {"connector.class": "SqliteSink", "connection.path": str(folder / "shop.db"), "auto.create": True}
    orders.to_connector("orders_of_today", table)
    return builder.build()


def _to_files(folder):
    builder = StreamsBuilder()
    orders = builder.stream("orders", Consumed.with_(Serdes.string(), ORDERS))
    files = {"connector.class": "FileSink", "path": str(folder / "files"), "range.interval.ms": 0}
    orders.to_connector("orders_of_today", files)
    return builder.build()


def _append(log, count):
    rows = [b'{"id": %d, "total": 2.5}' % number for number in range(count)]
    with closing(log.writer()) as writer:
        writer.append([OutputBatch("shop-orders_of_today-to-connector", [b"k"] * count, rows, [0] * count)])


@pytest.mark.long
@pytest.mark.parametrize("program", [_to_a_table, _to_files])
def test_records_that_a_sink_has_written_leave_its_topic_and_a_restart_goes_on_behind_them(tmp_path, program):
    where = TopicPartition("shop-orders_of_today-to-connector", 0)
    with closing(open_log(LogConfig("embedded", str(tmp_path / "log")))) as log:
        for end in (10, 20):
            connectors = opened(program(tmp_path), tmp_path, **{"repartition.purge.interval.ms": 50})
            _append(log, 10)
            connectors.start(sources=False)
            wait_for(lambda end=end: log.start_offsets([where])[where] == end)
            assert connectors.error() is None
            connectors.close()


def test_records_leave_the_topic_of_a_sink_when_it_stops_before_the_first_purge(tmp_path):
    where = TopicPartition("shop-orders_of_today-to-connector", 0)
    connectors = opened(_to_a_table(tmp_path), tmp_path)
    with closing(open_log(LogConfig("embedded", str(tmp_path / "log")))) as log:
        _append(log, 10)
        connectors.start(sources=False)
        wait_for(connectors.sinks_at_end)
        connectors.close()
        assert log.start_offsets([where])[where] == 10
    with sqlite3.connect(tmp_path / "shop.db") as database:
        assert database.execute("SELECT count(*) FROM orders_of_today").fetchone() == (10,)


def test_a_wrong_configuration_is_refused_with_every_error_and_the_line_of_the_program(tmp_path):
    builder = StreamsBuilder()
    config = {"connector.class": "FileStreamSource", "batch.size": 0, "tasks.max": "none"}
    builder.from_connector("lines", config, Consumed.with_(Serdes.bytes(), Serdes.string())).foreach(print)
    with pytest.raises(TopologyError) as raised:
        opened(builder.build(), tmp_path)
    assert raised.value.condition == "INVALID_CONNECTOR"
    assert "batch.size" in str(raised.value) and "tasks.max" in str(raised.value)
    assert "test_program_connectors.py:" in raised.value.line


def test_a_sink_is_no_source(tmp_path):
    builder = StreamsBuilder()
    config = {"connector.class": "FileStreamSink", "file": "x"}
    builder.from_connector("lines", config, Consumed.with_(Serdes.bytes(), Serdes.string())).foreach(print)
    with pytest.raises(TopologyError, match="is no source"):
        opened(builder.build(), tmp_path)


def test_topics_of_a_sink_are_the_programs(tmp_path):
    lines = StreamsBuilder().stream("in", Consumed.with_(Serdes.bytes(), Serdes.string()))
    with pytest.raises(TopologyError, match="topics of the connector 'upper' is set by the program"):
        lines.to_connector("upper", {"connector.class": "FileStreamSink", "topics": "other"})


def test_two_connectors_of_one_name_are_refused():
    builder = StreamsBuilder()
    config = {"connector.class": "FileStreamSource"}
    lines = builder.from_connector("lines", config, Consumed.with_(Serdes.bytes(), Serdes.string()))
    with pytest.raises(TopologyError, match="two connectors named 'lines'"):
        lines.to_connector("lines", {"connector.class": "FileStreamSink"})


@pytest.mark.long
def test_a_connector_that_fails_names_its_reason_and_its_line(tmp_path):
    (tmp_path / "in.txt").write_text("one\ntwo\n")
    connectors = opened(lines_to_upper_case(tmp_path), tmp_path)
    connectors.start(sources=True)
    wait_for(connectors.sources_at_end)
    connectors.close()
    (tmp_path / "in.txt").write_text("")
    connectors = opened(lines_to_upper_case(tmp_path), tmp_path)
    connectors.start(sources=True)
    wait_for(lambda: connectors.error() is not None)
    error = connectors.error()
    connectors.close()
    assert isinstance(error, HayaseError)
    assert error.condition == "CONNECTOR_FAILED" and "FILE_SHORTER" in error.message
    assert "test_program_connectors.py:" in str(error)


def test_describe_shows_connectors_with_their_guarantees(tmp_path):
    lines = connector_lines(lines_to_upper_case(tmp_path))
    assert lines == [
        "Connectors:",
        "  from_connector lines (FileStreamSource, exactly once supported) --> topic lines-from-connector",
        "  topic upper-to-connector --> to_connector upper (FileStreamSink, at least once)",
    ]


@pytest.mark.parametrize(
    ("connector", "package", "extra"),
    [("PostgresConnector", "psycopg", "postgres"), ("WebhookSource", "starlette", "server")],
)
def test_a_connector_without_its_package_says_how_to_install_it(monkeypatch, tmp_path, connector, package, extra):
    import importlib.util

    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *rest: None if name == package else found(name, *rest)
    )
    builder = StreamsBuilder()
    text = Consumed.with_(Serdes.bytes(), Serdes.string())
    builder.from_connector("users", {"connector.class": connector}, text).foreach(print)
    with pytest.raises(TopologyError, match=rf"pip install 'hayase\[{extra}\]'"):
        opened(builder.build(), tmp_path)


@pytest.fixture
def registry():
    with SchemaRegistryServer() as server:
        yield server


AVRO = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "long"}, {"name": "city", "type": "string"}],
}
PROTOBUF = 'syntax = "proto3"; message Order { int64 id = 1; string city = 2; }'
WITH_REGISTRY = {
    "avro": (Serdes.avro, AVRO),
    "json_schema": (Serdes.json_schema, {"title": "Order", "type": "object"}),
    "protobuf": (Serdes.protobuf, PROTOBUF),
}


@pytest.mark.long
@pytest.mark.parametrize("kind", WITH_REGISTRY)
def test_a_source_writes_what_a_serde_with_a_registry_reads(kind, registry, tmp_path):
    serde = WITH_REGISTRY[kind][0](None, registry.url)
    (tmp_path / "in.txt").write_text("Oslo\nRome\n")
    source = {"connector.class": "FileStreamSource", "file": str(tmp_path / "in.txt"), "transforms": "hoist"}
    source |= {"transforms.hoist.type": "HoistField$Value", "transforms.hoist.field": "city"}
    builder = StreamsBuilder()
    builder.from_connector("orders", source, Consumed.with_(Serdes.bytes(), serde)).foreach(print)
    connectors = opened(builder.build(), tmp_path)
    connectors.start(sources=True)
    wait_for(connectors.sources_at_end)
    connectors.close()
    topic = "shop-orders-from-connector"
    read = serde.for_topic(topic, "value", {}).deserialize
    assert [read(value) for value in values(tmp_path, topic)] == [{"city": "Oslo"}, {"city": "Rome"}]


@pytest.mark.parametrize("kind", WITH_REGISTRY)
def test_a_sink_reads_what_a_serde_with_a_registry_writes(kind, registry, tmp_path):
    make, schema = WITH_REGISTRY[kind]
    serde = make(schema, registry.url)
    builder = StreamsBuilder()
    orders = builder.stream("orders", Consumed.with_(Serdes.string(), ORDERS))
    table = {"connector.class": "SqliteSink", "connection.path": str(tmp_path / "shop.db"), "auto.create": True}
    orders.to_connector("sales", table, Produced.with_(Serdes.string(), serde))
    topic = "shop-sales-to-connector"
    data = serde.for_topic(topic, "value", {}).serialize({"id": 7, "city": "Rome"})
    if kind == "json_schema":  # a converter takes types from the schema, which says none
        body = {
            "title": "Order",
            "type": "object",
            "properties": {"id": {"type": "integer"}, "city": {"type": "string"}},
        }
        data = make(body, registry.url).for_topic(topic, "value", {}).serialize({"id": 7, "city": "Rome"})
    connectors = opened(builder.build(), tmp_path)
    log = open_log(LogConfig("embedded", str(tmp_path / "log")))
    writer = log.writer()
    writer.append([OutputBatch(topic, [b"k"], [data], [0])])
    writer.close()
    log.close()
    connectors.start(sources=False)
    wait_for(connectors.sinks_at_end)
    assert connectors.stop(sources=False) is None
    connectors.close()
    with sqlite3.connect(tmp_path / "shop.db") as database:
        assert database.execute("SELECT id, city FROM sales").fetchall() == [(7, "Rome")]


def test_a_converter_has_the_registry_of_the_serde_and_how_it_writes():
    registry = SchemaRegistry("https://registry:8081", {"basic.auth.user.info": "${env:USER_INFO}", "max.retries": 1})
    serde = Serdes.avro(None, registry, use_latest_version=True, subject_name_strategy="RecordNameStrategy")
    settings = converter_settings("key", serde, source=True)
    assert settings == {
        "key.converter": "io.confluent.connect.avro.AvroConverter",
        "key.converter.schema.registry.url": "https://registry:8081",
        "key.converter.schema.registry.basic.auth.credentials.source": "USER_INFO",
        "key.converter.schema.registry.basic.auth.user.info": "${env:USER_INFO}",
        "key.converter.schema.registry.max.retries": "1",
        "key.converter.use.latest.version": "true",
        "key.converter.key.subject.name.strategy": "RecordNameStrategy",
    }


def test_the_registry_of_the_application_is_the_converters_too(registry, tmp_path):
    serde = Serdes.avro().for_topic("orders", "value", {"url": registry.url, "auto.register.schemas": "false"})
    settings = converter_settings("value", serde, source=True)
    assert settings["value.converter.schema.registry.url"] == registry.url
    assert settings["value.converter.auto.register.schemas"] == "false"


@pytest.mark.parametrize(
    ("serde", "message"),
    [
        (Serdes.avro(None, "http://registry:8081", subject_name_strategy=lambda *_: "s"), "give value.converter"),
        (Serdes.avro(), "set schema.registry.url"),
        (Serdes.uuid(), "no converter is known that fits UuidSerde"),
    ],
)
def test_a_serde_that_no_converter_fits_is_refused_with_what_to_do(serde, message, tmp_path):
    builder = StreamsBuilder()
    config = {"connector.class": "FileStreamSource", "file": "x"}
    builder.from_connector("lines", config, Consumed.with_(Serdes.bytes(), serde)).foreach(print)
    with pytest.raises(TopologyError, match=message):
        opened(builder.build(), tmp_path)
