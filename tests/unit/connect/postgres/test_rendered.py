"""Events that are written straight from the stream: byte for byte what the JSON converter writes."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hayase.connect.contracts import SerializedJson
from hayase.connect.converters.json_converter import JsonConverter
from hayase.connect.exceptions import DataError
from hayase.connect.model import SerializedRecords, SourceRecord
from hayase.connect.postgres.catalog import TypeRegistry
from hayase.connect.postgres.config import CaptureConfig
from hayase.connect.postgres.offsets import SnapshotProgress, StreamOffset
from hayase.connect.postgres.refusals import Report
from hayase.connect.postgres.replication import WalMessage
from hayase.connect.postgres.stream import ChangeReader
from hayase.core.errors import HayaseError, SerializationError

TYPES = {
    "int8": 20,
    "text": 25,
    "numeric": 1700,
    "timestamp": 1114,
    "bool": 16,
    "int4": 23,
    "bytea": 17,
    "date": 1082,
    "timestamptz": 1184,
}
COLUMNS = [
    ("id", "int8", -1, True), ("100%", "text", -1, False), ("price", "numeric", (10 << 16) + 2 + 4, False),
    ("at", "timestamp", -1, False), ("ok", "bool", -1, False), ("data", "bytea", -1, False),
    ("day", "date", -1, False), ("small", "timestamp", 3, False), ("zoned", "timestamptz", -1, False),
]  # fmt: skip
ROW = [
    "7",
    'a "b" \\ \n \x01 ü 日',
    "-12.80",
    "2026-11-25 10:11:12.5",
    "t",
    "\\x00ff",
    "2026-11-25",
    "1969-12-31 23:59:59",
    "2026-11-25 10:11:12.512345+00",
]
Cells = Sequence[str | None]


def query(sql: str, _: Sequence[object]) -> list[tuple[object, ...]]:
    if "FROM pg_type" in sql:
        return [(oid, "pg_catalog", name, "b", 0, 0, -1, []) for name, oid in TYPES.items()]
    if "FROM pg_class" in sql:
        return [("public", "items", False, "d", ["id"], [], 1)]
    return [(name, TYPES[kind], modifier, key) for name, kind, modifier, key in COLUMNS]


def row(cells: Cells) -> bytes:
    parts = [struct.pack("!h", len(cells))]
    for cell in cells:
        if cell is None:
            parts.append(b"n")
        elif cell == "<same>":
            parts.append(b"u")
        else:
            parts.append(b"t" + struct.pack("!i", len(cell.encode())) + cell.encode())
    return b"".join(parts)


def relation(oid: int, name: str) -> bytes:
    data = b"R" + struct.pack("!I", oid) + b"public\0" + name.encode() + b"\0d" + struct.pack("!h", len(COLUMNS))
    for column, kind, modifier, key in COLUMNS:
        data += bytes([key]) + column.encode() + b"\0" + struct.pack("!Ii", TYPES[kind], modifier)
    return data


def change(kind: bytes, *rows: tuple[bytes, Cells], oid: int = 9) -> bytes:
    return kind + struct.pack("!I", oid) + b"".join(which + row(cells) for which, cells in rows)


def fail(_: SourceRecord, error: Exception) -> None:
    raise error


def read(
    json: SerializedJson | None, *changes: bytes, report: Report = fail, **config: str
) -> list[SourceRecord | SerializedRecords]:
    props = {
        "database.hostname": "h", "database.user": "u", "database.dbname": 'my "db"', "topic.prefix": "shop",
        **{name.replace("_", "."): value for name, value in config.items()},
    }  # fmt: skip
    reader = ChangeReader(
        CaptureConfig(props), StreamOffset(500), SnapshotProgress(), TypeRegistry(query), query, report,
        now_us=lambda: 1_790_000_000_123_456, json=json,
    )  # fmt: skip
    begin = b"B" + struct.pack("!qqI", 9_000, 800_000_000_000_001, 77)
    commit = b"C" + struct.pack("!Bqqq", 0, 9_000, 9_048, 800_000_000_000_001)
    later = b"B" + struct.pack("!qqI", 9_900, 800_000_000_900_000, 78)
    messages = [relation(9, "items"), relation(10, "others"), begin, *changes, commit, later, *changes]
    for number, data in enumerate(messages):
        reader.handle(WalMessage(8_000 + number, data))
    return reader.take()


def written(records: list[SourceRecord | SerializedRecords]) -> list[tuple[str, bytes | None, bytes | None]]:
    return [
        (batch.topic, key, value)
        for batch in records
        if isinstance(batch, SerializedRecords)
        for key, value in zip(batch.keys, batch.values, strict=True)
    ]


def converted(
    records: list[SourceRecord | SerializedRecords], schemas: str
) -> list[tuple[str, bytes | None, bytes | None]]:
    converter = JsonConverter()
    converter.configure({"schemas.enable": schemas})
    return [
        (
            record.topic,
            converter.from_connect_data(record.topic, (), record.key_schema, record.key),
            None
            if record.value_schema is None
            else converter.from_connect_data(record.topic, (), record.value_schema, record.value),
        )
        for record in records
        if isinstance(record, SourceRecord)
    ]


NULLS: Cells = [ROW[0], *[None] * 8]
EVENTS = {
    "an insert": change(b"I", (b"N", ROW)),
    "an insert with nulls": change(b"I", (b"N", NULLS)),
    "an update": change(b"U", (b"N", ROW)),
    "an update of which the old row was sent": change(b"U", (b"O", ROW), (b"N", [*ROW[:-2], None, None])),
    "a value that was not sent": change(b"U", (b"N", [ROW[0], "<same>", *ROW[2:5], "<same>", *ROW[6:]])),
    "a value that the old row has": change(b"U", (b"O", ROW), (b"N", [ROW[0], "<same>", *ROW[2:]])),
    "a delete with the key": change(b"D", (b"K", NULLS)),
    "a delete with the row": change(b"D", (b"O", ROW)),
}


@pytest.mark.parametrize("schemas", ["false", "true"])
@pytest.mark.parametrize("event", EVENTS)
def test_the_bytes_are_those_of_the_converter(event: str, schemas: str) -> None:
    json = SerializedJson(schemas == "true", schemas == "true")
    assert written(read(json, EVENTS[event])) == converted(read(None, EVENTS[event]), schemas)


TEXTS = [
    st.integers(-(1 << 63), (1 << 63) - 1).map(str),
    st.text(st.characters(exclude_characters="\0", codec="utf-8")),
    st.decimals(-99_999_999, 99_999_999, places=2, allow_nan=False).map(str) | st.just("NaN"),
    st.sampled_from(["2026-11-25 10:11:12.5", "infinity", "0044-03-15 12:00:00 BC"]),
    st.sampled_from(["t", "f"]),
    st.binary().map(lambda data: "\\x" + data.hex()),
    st.sampled_from(["2026-11-25", "-infinity"]),
    st.just(ROW[7]),
    st.sampled_from(
        ["2026-11-25 10:11:12.512345+00", "2026-11-25 10:11:12+00", "infinity", "0044-03-15 12:00:00.123456+00 BC"]
    ),
]


@settings(max_examples=300, deadline=None)
@given(
    rows=st.lists(
        st.tuples(TEXTS[0], *(text | st.none() | st.just("<same>") for text in TEXTS[1:])).map(list),
        min_size=1, max_size=4,
    ),
    op=st.sampled_from([b"I", b"U"]),
    skipped=st.sampled_from(["none", "c", "u"]),
    left_out=st.sampled_from(["", "public[.]items[.]price", "public[.]items[.]id"]),
)  # fmt: skip
def test_the_bytes_of_any_row_and_where_to_go_on_are_those_of_the_converter(
    rows: list[list[str | None]], op: bytes, skipped: str, left_out: str
) -> None:
    config = {"skipped_operations": skipped, "column_exclude_list": left_out}
    changes = [change(op, (b"N", row)) for row in rows]
    plain_refused: Refused = []
    refused: Refused = []
    plain = read(None, *changes, report=refusing(plain_refused), **config)
    records = read(SerializedJson(False, False), *changes, report=refusing(refused), **config)
    assert written(records) == converted(plain, "false")
    assert [str(error) for _, error in refused] == [str(error) for _, error in plain_refused]
    assert [each.source_offset for each in records[-1:]] == [each.source_offset for each in plain[-1:]]


@pytest.mark.parametrize("kind", [b"I", b"U"])
def test_a_message_that_is_cut_off_is_refused_wherever_it_ends(kind: bytes) -> None:
    whole = change(kind, (b"N", ROW))
    for size in range(6, len(whole)):
        with pytest.raises(SerializationError, match="that pgoutput does not have"):
            read(SerializedJson(False, False), whole[:size])


def test_a_column_of_the_key_may_be_left_out_of_the_row() -> None:
    config = {"column_exclude_list": "public[.]items[.]id"}
    ((_, key, value), *_) = written(read(SerializedJson(False, False), EVENTS["an insert"], **config))
    assert key == b'{"id":7}'
    assert value is not None
    assert b'"id":7' not in value
    assert converted(read(None, EVENTS["an insert"], **config), "false")[0][1:] == (key, value)


def test_changes_of_two_tables_in_turn_are_one_batch_for_each() -> None:
    changes = [change(b"I", (b"N", [str(number), *ROW[1:]]), oid=9 + number % 2) for number in range(6)]
    first, second = read(SerializedJson(False, False), *changes)
    assert isinstance(first, SerializedRecords)
    assert isinstance(second, SerializedRecords)
    assert first.keys == [b'{"id":%d}' % number for number in (0, 2, 4)] * 2
    assert second.keys == [b'{"id":%d}' % number for number in (1, 3, 5)] * 2
    assert first.source_offset is None
    assert second.source_offset is not None
    assert second.source_offset["ordinal"] == 6


NAN: Cells = [*ROW[:2], "NaN", *ROW[3:]]
JSON = [None, SerializedJson(False, False)]
Refused = list[tuple[SourceRecord, HayaseError]]


def refusing(refused: Refused) -> Callable[[SourceRecord, Exception], None]:
    def report(record: SourceRecord, error: Exception) -> None:
        assert isinstance(error, HayaseError)
        refused.append((record, error))

    return report


def kinds(records: list[SourceRecord | SerializedRecords], json: SerializedJson | None) -> list[tuple[Any, ...]]:
    """Kind of each record and the number of its row."""
    found = written(records) if json is not None else converted(records, "false")
    values = [(key and msgspec.json.decode(key), value and msgspec.json.decode(value)) for _, key, value in found]
    return [(value and value["op"], key["id"]) for key, value in values]


@pytest.mark.parametrize("json", JSON, ids=["values", "written"])
def test_a_change_that_cannot_be_captured_is_reported_with_table_column_key_and_position(
    json: SerializedJson | None,
) -> None:
    refused: Refused = []
    other = change(b"I", (b"N", ["8", *ROW[1:]]))
    records = read(json, change(b"I", (b"N", NAN)), other, report=refusing(refused))
    assert kinds(records, json) == [("c", 8), ("c", 8)]
    (record, error), _ = refused
    assert error.message == (
        "the value 'NaN' cannot be captured: NaN is a special value that decimal.handling.mode=precise cannot hold; "
        "set it to string or double, or leave out such rows with errors.tolerance=all"
    )
    assert error.context == {"table": "public.items", "column": "price", "key": {"id": "7"}, "lsn": "0/1F43"}
    assert (record.topic, record.key, record.source_offset["lsn"]) == ("shop.public.items", {"id": "7"}, 8_003)


@pytest.mark.parametrize("json", JSON, ids=["values", "written"])
def test_a_row_that_cannot_be_captured_leaves_a_tombstone_when_it_goes(json: SerializedJson | None) -> None:
    refused: Refused = []
    records = read(json, change(b"D", (b"O", NAN)), report=refusing(refused))
    assert (kinds(records, json), len(refused)) == ([(None, 7)] * 2, 2)


@pytest.mark.parametrize("json", JSON, ids=["values", "written"])
def test_a_row_that_cannot_be_captured_until_its_key_changes_comes_under_the_new_one(
    json: SerializedJson | None,
) -> None:
    refused: Refused = []
    records = read(json, change(b"U", (b"O", NAN), (b"N", ["8", *ROW[1:]])), report=refusing(refused))
    assert (kinds(records, None), len(refused)) == ([(None, 7), ("c", 8)] * 2, 2)


def test_a_change_that_cannot_be_captured_fails_where_none_is_left_out() -> None:
    with pytest.raises(DataError, match="NaN"):
        read(SerializedJson(False, False), change(b"I", (b"N", NAN)))
