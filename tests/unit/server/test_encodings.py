"""The forms in which rows are sent."""

from __future__ import annotations

import base64
import json
from decimal import Decimal

import pytest

from hayase.server.entities.schema_info import schema_info
from hayase.server.http.encodings.encodings import RowEncoding, encoding_for
from hayase.server.http.encodings.media_types import DELIMITED, JSON, KSQL_JSON, KSQL_PROTOBUF
from hayase.server.rows import ResultColumn, RowBatch, RowHeader
from hayase.sql.errors import StatementError
from hayase.sql.types.sql_types import (
    BIGINT,
    BYTES,
    DATE,
    DOUBLE,
    STRING,
    TIME,
    TIMESTAMP,
    ArrayType,
    DecimalType,
    MapType,
    SqlType,
    StructType,
)

_HEADER = RowHeader("q1", (ResultColumn("ID", STRING, is_key=True), ResultColumn("V", BIGINT)))


def _encoding(media_type: str, header: RowHeader = _HEADER) -> RowEncoding:
    return encoding_for(media_type, header, lambda error: {"message": error.message})


def _sent(media_type: str, *batches: RowBatch) -> str:
    encoding = _encoding(media_type)
    return b"".join([encoding.head(), *map(encoding.batch, batches), encoding.tail()]).decode()


def _value(type_: SqlType, value: object) -> str:
    encoding = _encoding(DELIMITED, RowHeader("q", (ResultColumn("C", type_),)))
    return encoding.batch(RowBatch([[value]])).decode().strip()[1:-1]


def test_lines_have_a_header_and_rows_and_no_messages() -> None:
    sent = _sent(DELIMITED, RowBatch([["a", 1], ["b", None]], final_message="Limit Reached"))
    assert sent.splitlines() == [
        '{"queryId":"q1","columnNames":["ID","V"],"columnTypes":["STRING","BIGINT"]}',
        '["a",1]',
        '["b",null]',
    ]


def test_lines_leave_tombstones_out() -> None:
    assert _sent(DELIMITED, RowBatch([["a", None], ["b", 2]], frozenset({0}))).splitlines()[1:] == ['["b",2]']


def test_a_json_answer_is_one_array() -> None:
    sent = json.loads(_sent(JSON, RowBatch([["a", 1]]), RowBatch([["b", 2]])))
    assert sent[0]["columnNames"] == ["ID", "V"]
    assert sent[1:] == [["a", 1], ["b", 2]]


def test_streamed_rows_are_one_to_a_line() -> None:
    sent = _sent(KSQL_JSON, RowBatch([["a", 1], ["b", None]], frozenset({1}), "Limit Reached"))
    assert sent.splitlines() == [
        '[{"header":{"queryId":"q1","schema":"`ID` STRING KEY, `V` BIGINT"}},',
        '{"row":{"columns":["a",1]}},',
        '{"row":{"columns":["b",null],"tombstone":true}},',
        '{"finalMessage":"Limit Reached"}]',
    ]


@pytest.mark.parametrize("media_type", [DELIMITED, JSON, KSQL_JSON])
def test_an_answer_that_fails_late_ends_with_the_error(media_type: str) -> None:
    sent = _sent(media_type, RowBatch([["a", 1]]), RowBatch(error=StatementError("X", "it broke")))
    assert "it broke" in "".join(sent.splitlines()[-2:])


def test_an_element_of_a_query_that_goes_on_is_a_whole_line_at_once() -> None:
    encoding = _encoding(KSQL_JSON)
    assert encoding.head().endswith(b",\n")
    assert encoding.batch(RowBatch([["a", 1]])) == b'{"row":{"columns":["a",1]}},\n'


def test_an_answer_without_rows_is_whole() -> None:
    encoding = _encoding(KSQL_JSON, RowHeader("q", _HEADER.columns, has_end=False))
    assert len(json.loads(encoding.head() + encoding.tail())) == 1
    assert len(json.loads(_sent(JSON))) == 1


def test_protobuf_rows_are_messages_of_the_schema_in_the_header() -> None:
    header, row, _ = json.loads(_sent(KSQL_PROTOBUF, RowBatch([["a", 1]], final_message="Limit Reached")))
    assert "string ID = 1;" in header["header"]["protoSchema"]
    assert base64.b64decode(row["row"]["protobufBytes"]) == b"\n\x01a\x10\x01"


@pytest.mark.parametrize(
    ("type_", "value", "text"),
    [
        (DecimalType(10, 2), Decimal("1.50"), "1.50"),
        (DecimalType(20, 0), Decimal("1E+3"), "1000"),
        (DOUBLE, float("nan"), '"NaN"'),
        (DOUBLE, 0.5, "0.5"),
        (TIMESTAMP, 10, '"1970-01-01T00:00:00.010"'),
        (DATE, 1, '"1970-01-02"'),
        (TIME, 1_000, '"00:00:01"'),
        (BYTES, b"\x01\x02", '"AQI="'),
        (ArrayType(DATE), [0, None], '["1970-01-01",null]'),
        (MapType(STRING, DecimalType(3, 1)), {"a": Decimal("1.0")}, '{"a":1.0}'),
        (StructType((("B", DATE), ("A", BIGINT))), {"A": 1, "B": 0}, '{"B":"1970-01-01","A":1}'),
        (MapType(BIGINT, BIGINT), {7: 1}, '{"7":1}'),
    ],
)
def test_values_are_written_as_clients_of_ksqldb_read_them(type_: SqlType, value: object, text: str) -> None:
    assert _value(type_, value) == text


def test_the_schema_of_a_struct_has_its_fields() -> None:
    shown = schema_info(StructType((("A", DecimalType(4, 2)),)))
    assert shown["fields"][0]["schema"]["parameters"] == {"precision": 4, "scale": 2}
