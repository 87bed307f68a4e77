"""Signals by a topic: which records are signals of a connector, and where reading goes on."""

from __future__ import annotations

import pytest
from tests.unit.connect.connectors import NumberSource

from hayase.connect.exceptions import ConnectError
from hayase.connect.herder.signals import send_signal
from hayase.connect.herder.states import BadRequestError
from hayase.connect.postgres.config import CaptureConfig
from hayase.connect.postgres.connector import PostgresConnector
from hayase.connect.postgres.signals import IncrementalProgress, Signal, SignalTopic
from hayase.connect.topic_reader import TopicReader
from hayase.core.errors import ConfigError
from hayase.log.protocol import Log, OutputBatch
from hayase.testing.connect import ConnectorTestDriver

PROPS = {
    "database.hostname": "h", "database.user": "u", "database.dbname": "d", "topic.prefix": "shop",
}  # fmt: skip


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def write(
    log: Log, *records: tuple[bytes | None, bytes | None], topic: str = "shop-signal", partitions: int = 1
) -> None:
    if not log.describe([topic]):
        log.create_topic(topic, partitions)
    writer = log.writer()
    keys, values = zip(*records, strict=True)
    writer.append([OutputBatch(topic, list(keys), list(values), [0] * len(records))])
    writer.close()


def signals(log: Log, clock: Clock, offset: int = 0) -> SignalTopic:
    return SignalTopic("shop-signal", "shop", offset, TopicReader(log).read, clock)


def test_records_with_the_prefix_as_their_key_are_signals(log: Log) -> None:
    write(
        log,
        (b"shop", b'{"id":"1","type":"execute-snapshot","data":{"data-collections":["public.t"]}}'),
        (b"other", b'{"type":"log","data":{}}'),
        (None, b'{"type":"log"}'),
        (b"shop", b'{"type":"log","data":{"message":"x"},"more":1}'),
    )
    topic = signals(log, Clock())
    assert topic.take() == [
        Signal("1", "execute-snapshot", {"data-collections": ["public.t"]}),
        Signal("", "log", {"message": "x"}),
    ]
    assert (topic.offset, topic.left_out) == (4, 0)


def test_records_that_cannot_be_read_are_counted(log: Log) -> None:
    write(log, (b"shop", b"{no json"), (b"shop", b'{"data":{}}'), (b"shop", b'{"type":"log"}'), (b"shop", None))
    topic = signals(log, Clock())
    assert [signal.kind for signal in topic.take()] == ["log"]
    assert topic.left_out == 2


def test_the_topic_is_looked_at_now_and_then_and_goes_on_where_it_was(log: Log) -> None:
    clock = Clock()
    topic = signals(log, clock)
    assert topic.take() == []  # there is none yet
    write(log, (b"shop", b'{"type":"a"}'))
    assert topic.take() == []
    clock.now = 1.0
    assert [signal.kind for signal in topic.take()] == ["a"]
    clock.now = 2.0
    assert topic.take() == []
    write(log, (b"shop", b'{"type":"b"}'))
    assert [signal.kind for signal in signals(log, Clock(), topic.offset).take()] == ["b"]


def test_a_topic_that_was_made_again_is_read_from_its_beginning(log: Log) -> None:
    write(log, (b"shop", b'{"type":"a"}'))
    assert [signal.kind for signal in signals(log, Clock(), 50).take()] == ["a"]


def test_a_topic_of_several_partitions_is_refused(log: Log) -> None:
    write(log, (b"shop", b'{"type":"a"}'), partitions=2)
    with pytest.raises(ConnectError, match="has 2 partitions, and must have one"):
        signals(log, Clock()).take()


def test_the_position_in_the_topic_is_kept_with_what_is_to_be_read() -> None:
    progress = IncrementalProgress(signal_offset=7)
    assert IncrementalProgress.from_offset(progress.to_offset()) == progress
    assert IncrementalProgress().to_offset() is None


@pytest.mark.parametrize(
    ("given", "table", "topic"),
    [
        ({}, "public.s", None),
        ({"signal.enabled.channels": "source,kafka"}, "public.s", "shop-signal"),
        ({"signal.enabled.channels": "kafka", "signal.kafka.topic": "asked"}, None, "asked"),
    ],
)
def test_channels_say_where_signals_come_from(given: dict[str, str], table: str | None, topic: str | None) -> None:
    config = CaptureConfig({**PROPS, "signal.data.collection": "public.s", **given})
    assert (config.signal_table, config.signal_topic) == (table, topic)


def test_channels_that_are_not_there_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"signal\.enabled\.channels"):
        CaptureConfig({**PROPS, "signal.enabled.channels": "jmx"})


def test_a_signal_has_the_key_and_the_topic_that_the_connector_reads() -> None:
    connector = PostgresConnector()
    assert connector.signal_topic(PROPS) is None
    assert connector.signal_topic({**PROPS, "signal.enabled.channels": "kafka"}) == ("shop-signal", b"shop")


def test_a_connector_that_reads_no_signals_gets_none(log: Log) -> None:
    given = {"connector.class": NumberSource, "key.converter": "StringConverter", "value.converter": "StringConverter"}
    with (
        ConnectorTestDriver(given, log=log) as driver,
        pytest.raises(BadRequestError, match=r"signal\.enabled\.channels=source,kafka"),
    ):
        send_signal(driver.environment, "test", driver.props, "log", {})
