"""The processing log: what failed for a record is a record of its topic, and a row of its stream."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from hayase import Consumed, Produced, Serdes, StreamsBuilder
from hayase.sql.engine import SqlEngine
from hayase.testing import TopologyTestDriver
from hayase.testing.sql.script import SqlScript

SOURCE = "CREATE STREAM s (k INT KEY, v INT, t STRING) WITH (kafka_topic='s', value_format='JSON');"
LOG = "log"


def entries(query: str, *records: tuple[bytes | None, bytes | None], **settings: object) -> list[dict[str, Any]]:
    """What a query writes to the processing log for records of the source."""
    engine = SqlEngine()
    engine.script(SOURCE + query)
    (persistent,) = engine.queries.values()
    config = {
        "application.id": "shop",
        "processing.log.topic.name": LOG,
        "deserialization.exception.handler": "log_and_continue",
        "production.exception.handler": "log_and_continue",
        **settings,
    }
    with TopologyTestDriver(persistent.topology, config, 1_234) as driver:
        for key, value in records:
            driver.pipe("s", key, value, 0, ())
        return [json.loads(record.value or b"") for record in driver.output_queue(LOG)]


def test_an_expression_that_fails_is_a_record_processing_error() -> None:
    (entry,) = entries("CREATE STREAM a AS SELECT k, v / 0 AS w, t FROM s;", (b"\0\0\0\1", b'{"V": 7}'))
    message = entry.pop("message")
    assert entry == {"level": "ERROR", "logger": "processing.shop.SELECT", "time": 1_234}
    assert message["type"] == 1
    error = message["recordProcessingError"]
    assert error["errorMessage"].startswith("W: ") and error["record"] is None and error["cause"] == []


def test_the_data_that_failed_is_shown_where_the_settings_say_so() -> None:
    row = (b"\0\0\0\1", b'{"V": 7}')
    query = "CREATE STREAM a AS SELECT k, t FROM s WHERE v / 0 = 1;"
    (entry,) = entries(query, row, **{"processing.log.rows.include": True})
    assert json.loads(entry["message"]["recordProcessingError"]["record"])["V"] == 7


@pytest.mark.parametrize(("key", "value", "target"), [(b"\0", b"{}", "key"), (b"\0\0\0\1", b"{", "value")])
def test_a_record_that_cannot_be_read_is_a_deserialization_error(key: bytes, value: bytes, target: str) -> None:
    settings = {"processing.log.rows.include": True}
    (entry,) = entries("CREATE STREAM a AS SELECT * FROM s;", (key, value), **settings)
    assert entry["message"]["type"] == 0
    error = entry["message"]["deserializationError"]
    assert error["target"] == target and error["topic"] == "s"
    assert base64.b64decode(error["recordB64"]) == (key if target == "key" else value)


def test_a_result_that_cannot_be_written_is_a_serialization_error() -> None:
    builder = StreamsBuilder()
    stream = builder.stream("s", Consumed.with_(Serdes.string(), Serdes.string()))
    stream.to("out", Produced.with_(Serdes.string(), Serdes.integer()))
    config = {"processing.log.topic.name": LOG, "production.exception.handler": "log_and_continue"}
    with TopologyTestDriver(builder.build(), config) as driver:
        driver.pipe("s", b"k", b"no number", 0, ())
        (entry,) = [json.loads(record.value or b"") for record in driver.output_queue(LOG)]
    assert entry["message"]["type"] == 3
    error = entry["message"]["serializationError"]
    assert error["target"] == "value" and error["topic"] == "out" and error["record"] is None


def test_without_a_topic_there_is_no_log() -> None:
    row = (b"\0\0\0\1", b'{"V": 7}')
    settings = {"processing.log.topic.name": None}
    assert entries("CREATE STREAM a AS SELECT k, v / 0 AS w FROM s;", row, **settings) == []


def test_the_log_is_a_stream_that_queries_read() -> None:
    with SqlScript({"ksql.logging.processing.stream.auto.create": "true"}) as script:
        script.run(
            SOURCE
            + """
            CREATE STREAM a AS SELECT k, v / (v - 1) AS w FROM s;
            CREATE STREAM failed AS SELECT logger, message->recordProcessingError->errorMessage AS text
                FROM ksql_processing_log WHERE message->type = 1;
            INSERT INTO s (k, v) VALUES (1, 1);
            INSERT INTO s (k, v) VALUES (2, 3);
            ASSERT VALUES failed (logger) VALUES ('processing.CSAS_A_0.SELECT');
            ASSERT VALUES a (k, w) VALUES (1, NULL);
            ASSERT VALUES a (k, w) VALUES (2, 1);
            """
        )
