"""A broker that goes away and comes back: what each path says meanwhile, and that it goes on with what it has."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka.admin import OffsetSpec

from hayase.core.errors import LogError
from hayase.core.records import TopicPartition
from hayase.log.kafka.admin import KafkaAdmin
from hayase.log.kafka.reader import KafkaReader
from hayase.log.kafka.writer import KafkaWriter
from hayase.log.protocol import LogConfig, Marker, OutputBatch
from hayase.testing.kafka_broker import PATIENT, KafkaBroker

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(600)]


def unavailable(call: Callable[[], object]) -> str:
    """The message of an error that says that nothing answers, in one line."""
    with pytest.raises(LogError) as caught:
        call()
    assert caught.value.condition == "BROKER_UNAVAILABLE"
    assert "\n" not in str(caught.value)
    return caught.value.message


def until_it_works(call: Callable[[], object]) -> object:
    """The answer, once the broker and its coordinators are back."""
    deadline = time.monotonic() + 240
    while True:
        try:
            return call()
        except LogError as error:
            if error.condition != "BROKER_UNAVAILABLE" or time.monotonic() > deadline:
                raise


def test_admin_reader_and_writer_say_that_nobody_answers_and_go_on_when_the_broker_is_back(
    tmp_path: Path,
) -> None:
    with KafkaBroker(tmp_path / "broker", heap_mb=256, start_timeout_s=600, extra_config=PATIENT) as broker:
        config = LogConfig("kafka", broker.bootstrap_servers)
        admin, reader, writer = KafkaAdmin(config), KafkaReader(config), KafkaWriter(config)
        if not until_it_works(lambda: admin.describe(["t"])):
            with contextlib.suppress(LogError):  # made after all, though the answer was late
                admin.create_topic("t", 1, {})
        where = TopicPartition("t", 0)

        def read(start: int, end: int) -> list[bytes | None]:
            return [value for batch in reader.fetch(where, start, end) for value in batch.values]

        until_it_works(lambda: writer.append([OutputBatch("t", [b"k"], [b"first"], [1])]))
        until_it_works(lambda: writer.publish_epoch("app", "0", Marker("L", 0, "d"), []))
        assert until_it_works(lambda: read(0, 1)) == [b"first"]
        hasty_admin = KafkaAdmin(config, timeout_s=2.0)
        until_it_works(lambda: hasty_admin.commit_group("group", {where: 1}))
        broker.stop()  # in good order, so that nothing of the transaction is lost; see KafkaBroker.kill

        unavailable(lambda: hasty_admin.commit_group("group", {where: 2}))  # librdkafka's own would wait forever
        hasty_reader, hasty_writer = KafkaReader(config, timeout_s=2.0), KafkaWriter(config, timeout_s=2.0)
        assert "Connection refused" in unavailable(lambda: hasty_admin.describe(["t"]))
        unavailable(lambda: list(hasty_reader.fetch(where, 0, 1)))
        unavailable(lambda: hasty_writer.append([OutputBatch("t", [b"k"], [b"lost"], [2])]))
        unavailable(lambda: hasty_writer.publish_epoch("app", "0", Marker("L", 1, "d"), []))

        broker.start()
        until_it_works(lambda: admin.describe(["t"]))
        until_it_works(lambda: writer.append([OutputBatch("t", [b"k"], [b"second"], [2])]))
        assert until_it_works(lambda: writer.publish_epoch("app", "0", Marker("L", 1, "d"), [])) in (True, False)
        until_it_works(lambda: hasty_admin.commit_group("group", {where: 3}))
        assert admin.group_offsets("group") == {where: 3}
        end = admin.offsets({where: OffsetSpec.latest()})[where]
        assert until_it_works(lambda: read(1, end)) == [b"second"]
        for each in (admin, reader, writer, hasty_admin, hasty_reader, hasty_writer):
            each.close()
