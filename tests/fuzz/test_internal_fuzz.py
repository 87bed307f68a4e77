"""What processes of one application hand to each other and keep: damage is an error that says so, never a crash."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from tests.fuzz.inputs import run
from tests.fuzz.serdes import registry

from hayase.core.errors import CheckpointError, HayaseError, LogError, SerializationError
from hayase.log.kafka.markers import decode_marker, encode_marker
from hayase.log.protocol import Marker
from hayase.serde import decode_session_keys, decode_timestamped, decode_timestamped_array, decode_windowed_keys
from hayase.serde.avro_serde import AvroSerde
from hayase.serde.registry import RegistrySchema
from hayase.state.delta.journal import EdgeRow
from hayase.task.edges import EDGE_HEADERS, headers_series, raw_records, read_row, to_payload
from hayase.task.epoch_record import EpochRecord
from hayase.task.summary import BundleSummary

RECORDS = pl.DataFrame(
    {"key": [b"a", None, b"ccc"], "value": [b"x" * 20, b"", None], "ts": [1, 2, 3]},
    schema={"key": pl.Binary, "value": pl.Binary, "ts": pl.Int64},
).with_columns(headers_series([(("h", b"z"),), (), (("h", None),)]))
TYPED = pl.DataFrame({"a": [1.5], "s": ["é"], "n": [{"x": 1}], "l": [[1, 2]]})
SUMMARY = BundleSummary("b", 5, adopted=False, published=True, metrics=[], seconds={"fetch": 0.5})
RECORD = EpochRecord(5, "l", "p", 1000, {"t": {0: (1, 2)}}, {"t": "id"}, "before")


def stream_of(frame: pl.DataFrame) -> bytes:
    buffer = io.BytesIO()
    frame.write_ipc_stream(buffer)
    return buffer.getvalue()


def read_rows_of_edges(data: bytes) -> None:
    frame = read_row(EdgeRow("1_0", "edge", "0_0", 7, data))
    if {"key", "value", "ts", EDGE_HEADERS} == set(frame.columns):
        assert len(raw_records("edge", 0, frame, np.arange(frame.height))) == frame.height


def read_times(data: bytes) -> None:
    times, (rest,) = decode_timestamped([data])
    assert rest == data[8:]
    assert decode_timestamped_array(pa.array([data, None], pa.binary()))[0].tolist() == [*times.tolist(), -1]


def read_windows(data: bytes) -> None:
    array = pa.array([data], pa.large_binary())
    for decode, width in ((decode_windowed_keys, 8), (decode_session_keys, 16)):
        if len(data) < width:
            with pytest.raises(SerializationError):
                decode(array)
        else:
            assert decode(array)[0].to_pylist() == [data[:-width]]
            assert all(isinstance(each, np.ndarray) for each in decode(array)[1:])


SOURCES: dict[str, tuple[Callable[[bytes], Any], type[HayaseError], list[bytes]]] = {
    "rows between tasks": (read_rows_of_edges, SerializationError, [to_payload(RECORDS), to_payload(TYPED)]),
    "rows between tasks without checksum": (
        read_rows_of_edges, SerializationError, [stream_of(RECORDS), stream_of(TYPED)],
    ),
    "summaries": (BundleSummary.from_bytes, SerializationError, [SUMMARY.to_bytes()]),
    "epoch records": (EpochRecord.from_bytes, CheckpointError, [RECORD.to_bytes()]),
    "markers in Kafka": (decode_marker, LogError, [encode_marker(Marker("l", 5, "d"))]),
    "values with times": (read_times, SerializationError, [bytes(8) + b"value", bytes(8)]),
    "windowed keys": (read_windows, SerializationError, [b"key" + bytes(8), b"key" + bytes(16)]),
}  # fmt: skip


@pytest.mark.parametrize("source", SOURCES)
def test_damage_is_an_error_that_says_so(source: str, inputs: int, tmp_path: Path) -> None:
    read, error, corpus = SOURCES[source]

    def check(batch: list[bytes | None]) -> None:
        for data in batch:
            if data is None:
                continue
            try:
                read(data)
            except error:
                assert data not in corpus, data.hex()
            except BaseException as other:
                raise AssertionError(f"{type(other).__name__} for {data.hex()}") from other

    run(source, corpus, max(5, int(inputs * 0.18) // len(SOURCES)), tmp_path, check)


def test_a_changed_row_between_tasks_is_never_taken_for_another(inputs: int, tmp_path: Path) -> None:
    valid = to_payload(RECORDS)

    def check(batch: list[bytes | None]) -> None:
        for data in batch:
            if data is not None and data[:4] == b"HER1" and data != valid:
                with pytest.raises(SerializationError):
                    read_row(EdgeRow("1_0", "edge", "0_0", 7, data))

    run("changed rows", [valid], max(5, int(inputs * 0.01)), tmp_path, check)


SCHEMAS = [
    {"type": "record", "name": "R", "fields": [{"name": "a", "type": ["null", {"type": "array", "items": "R"}]}]},
    {"type": "map", "values": {"type": "fixed", "name": "F", "size": 2}},
    {"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 1},
]


def test_damaged_avro_schemas_are_refused_or_read_by(inputs: int, tmp_path: Path) -> None:
    def check(batch: list[bytes | None]) -> None:
        for data in batch:
            if data is None:
                continue
            schema = RegistrySchema(data.decode("latin-1"), "AVRO")
            held = registry().held
            held.schemas[7_000_000] = schema
            try:
                AvroSerde(None, registry()).deserialize(b"\0\0\x6a\xcf\xc0" + b"\x02\x02\x02\x02\0\0\0")
            except SerializationError:
                pass
            except BaseException as error:
                raise AssertionError(f"{type(error).__name__} for {data.hex()}") from error

    corpus = [json.dumps(schema).encode() for schema in SCHEMAS]
    run("schemas", corpus, max(5, int(inputs * 0.01)), tmp_path, check)
