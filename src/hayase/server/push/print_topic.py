"""PRINT: the records of a topic as lines of text, whatever is in them."""

from __future__ import annotations

import asyncio
import json
import struct
from functools import partial
from typing import Any

from hayase.core.records import RecordMetadata
from hayase.dsl.builder import StreamsBuilder
from hayase.dsl.options.options import Consumed, Produced
from hayase.processor.api import FixedKeyProcessor, FixedKeyProcessorContext, FixedKeyRecord
from hayase.serde import Serdes
from hayase.server.push.query import PushRows
from hayase.server.push.running import PushQueries
from hayase.server.push.shown import ShownTopology
from hayase.server.rows import ResultColumn
from hayase.server.services import QueryServices
from hayase.sql.ast.statements import PrintTopic
from hayase.sql.errors import StatementError
from hayase.sql.formats.columns import Column
from hayase.sql.formats.internal import internal_value_serde
from hayase.sql.plan.push import ROWS_TOPIC, TOMBSTONE
from hayase.sql.types.sql_types import BOOLEAN, STRING
from hayase.sql.types.times import timestamp_text

LINE = "LINE"
_SETTINGS = {"deserialization.exception.handler": "log_and_continue"}
_NOWHERE = RecordMetadata("", -1, -1)
_NUMBERS = {4: ">i", 8: ">q"}


async def start_print(statement: PrintTopic, services: QueryServices, running: PushQueries) -> PushRows:
    """The lines of a PRINT statement, which counts as a push query.

    Raises:
        StatementError: there is no such topic, it cannot be read, a number of the statement is not allowed, or too
            many queries run.
    """
    services.topics.check_readable(statement.topic)
    if statement.topic not in services.tails.log.describe([statement.topic]):
        raise StatementError(
            "UNKNOWN_TOPIC",
            f"Could not find topic '{statement.topic}'. Topic names are case-sensitive: SHOW TOPICS lists those that "
            "there are",
        )
    if min(statement.interval or 1, statement.limit or 1) < 1:
        raise StatementError("INVALID_PRINT", "INTERVAL and LIMIT of PRINT are at least 1")
    loop = asyncio.get_running_loop()
    shown = _shown(statement)
    return await asyncio.to_thread(
        running.start,
        f"print_{statement.topic}",
        lambda query_id, ended: PushRows(query_id, shown, services.tails, _SETTINGS, loop, running, ended),
    )


def _shown(statement: PrintTopic) -> ShownTopology:
    serde = internal_value_serde([Column(LINE, STRING), Column(TOMBSTONE, BOOLEAN)])
    builder = StreamsBuilder()
    records = builder.stream(statement.topic, Consumed.with_(Serdes.bytes(), Serdes.bytes()))
    lines = records.process_values(partial(_Lines, statement.interval or 1))
    lines.to(ROWS_TOPIC, Produced.with_(Serdes.bytes(), serde))
    reset: Any = "earliest" if statement.from_beginning else "latest"
    return ShownTopology(builder.build(), (ResultColumn(LINE, STRING),), serde.from_bytes, statement.limit, reset)


class _Lines(FixedKeyProcessor[Any, Any, Any]):
    """Makes a line of every record, or of every n-th one."""

    def __init__(self, interval: int) -> None:
        self._interval = interval
        self._count = 0

    def init(self, context: FixedKeyProcessorContext[Any, Any]) -> None:
        """See `FixedKeyProcessor.init`."""
        self._context = context

    def process(self, record: FixedKeyRecord[Any, Any]) -> None:
        """Send a record's line on."""
        if self._count % self._interval == 0:
            metadata = self._context.record_metadata() or _NOWHERE
            line = record_line(record.key, record.value, record.timestamp_ms, metadata.partition)
            self._context.forward(record.with_value({LINE: line, TOMBSTONE: False}))
        self._count += 1


def record_line(key: bytes | None, value: bytes | None, timestamp_ms: int, partition: int) -> str:
    """The line of a record.

    Example:
        >>> record_line(b"k", b'{"a": 1}', 0, 2)
        'rowtime: 1970/01/01 00:00:00.000 Z, key: k, value: {"a": 1}, partition: 2'
    """
    shown = timestamp_text(timestamp_ms).replace("-", "/").replace("T", " ")
    return f"rowtime: {shown} Z, key: {_shown_bytes(key)}, value: {_shown_bytes(value)}, partition: {partition}"


def _shown_bytes(data: bytes | None) -> str:
    """Bytes as what they most likely are: text that can be printed, else a number, else hexadecimal digits."""
    if data is None:
        return "<null>"
    try:
        text = data.decode()
        if all(character.isprintable() or character in "\t\n\r" for character in text):
            return json.dumps(text, ensure_ascii=False)[1:-1].replace('\\"', '"')
    except UnicodeDecodeError:
        pass
    if len(data) in _NUMBERS:
        return str(struct.unpack(_NUMBERS[len(data)], data)[0])
    return data.hex()
