"""Windowed keys and values with a time, byte for byte as Kafka Streams writes them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hayase.core.errors import ConfigError, SerializationError
from hayase.core.records import Window, Windowed
from hayase.serde import (
    Serde,
    Serdes,
    SessionWindowedSerde,
    TimeWindowedSerde,
    decode_session_keys,
    decode_timestamped,
    decode_timestamped_array,
    decode_windowed_keys,
    encode_session_keys,
    encode_timestamped,
    encode_windowed_keys,
)

GOLDEN = Path(__file__).parents[2] / "golden" / "data" / "serdes.json"
INNER: dict[str, Serde[Any]] = {"string": Serdes.string(), "long": Serdes.long(), "int": Serdes.integer()}
LONG = st.integers(-(2**63), 2**63 - 1)


@pytest.fixture(scope="module")
def recorded() -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(GOLDEN.read_text())["windowed"]
    assert len(rows) > 30
    return rows


def test_time_windowed_keys_are_those_recorded_from_kafka(recorded: list[dict[str, Any]]) -> None:
    rows = [row for row in recorded if "time_windowed" in row]
    assert rows
    for row in rows:
        key, expected = row["key"], bytes.fromhex(row["time_windowed"])
        windowed = Windowed(key, Window(row["start"], row["end"]))
        serde = TimeWindowedSerde(INNER[row["type"]], row["end"] - row["start"])
        key_bytes = INNER[row["type"]].serialize(key)
        assert key_bytes is not None
        assert serde.serialize(windowed) == expected
        assert serde.deserialize(expected) == windowed
        assert encode_windowed_keys([key_bytes], np.array([row["start"]])) == [expected]


def test_session_windowed_keys_are_those_recorded_from_kafka(recorded: list[dict[str, Any]]) -> None:
    for row in recorded:
        key, expected = row["key"], bytes.fromhex(row["session_windowed"])
        windowed = Windowed(key, Window(row["start"], row["end"]))
        serde = SessionWindowedSerde(INNER[row["type"]])
        key_bytes = INNER[row["type"]].serialize(key)
        assert key_bytes is not None
        assert serde.serialize(windowed) == expected
        assert serde.deserialize(expected) == windowed
        assert encode_session_keys([key_bytes], np.array([row["start"]]), np.array([row["end"]])) == [expected]


@given(st.lists(st.tuples(st.binary(max_size=9), LONG, LONG), max_size=12), st.data())
def test_columns_of_windowed_keys_come_apart_as_they_were_put_together(
    rows: list[tuple[bytes, int, int]], data: st.DataObject
) -> None:
    skipped = data.draw(st.integers(0, len(rows)))
    keys = [key for key, _, _ in rows]
    starts, ends = (
        np.array([r[1] for r in rows], dtype=np.int64),
        np.array([r[2] for r in rows], dtype=np.int64),
    )
    again, starts_again = decode_windowed_keys(pa.array(encode_windowed_keys(keys, starts), pa.binary())[skipped:])
    assert again.to_pylist() == keys[skipped:]
    assert starts_again.tolist() == starts.tolist()[skipped:]
    stored = pa.array(encode_session_keys(keys, starts, ends), pa.large_binary())[skipped:]
    again, starts_again, ends_again = decode_session_keys(stored)
    assert again.to_pylist() == keys[skipped:]
    assert (starts_again.tolist(), ends_again.tolist()) == (
        starts.tolist()[skipped:],
        ends.tolist()[skipped:],
    )


def test_the_end_of_a_window_stays_within_64_bits() -> None:
    serde = TimeWindowedSerde(Serdes.string(), 100)
    data = serde.serialize(Windowed("k", Window(2**63 - 10, 2**63 - 1)))
    assert serde.deserialize(data) == Windowed("k", Window(2**63 - 10, 2**63 - 1))


def test_what_is_no_windowed_key_is_refused() -> None:
    time, session = TimeWindowedSerde(Serdes.string(), 10), SessionWindowedSerde(Serdes.string())
    bad: Any
    for bad in ("k", Windowed(None, Window(0, 10)), Windowed("k", Window(2**63, 2**63))):
        with pytest.raises(SerializationError):
            time.serialize(bad)
        with pytest.raises(SerializationError):
            session.serialize(bad)
    with pytest.raises(SerializationError):
        time.deserialize(b"1234567")
    with pytest.raises(SerializationError):
        session.deserialize(b"123456789012345")
    with pytest.raises(SerializationError):
        decode_windowed_keys(pa.array([b"1234567"]))
    with pytest.raises(SerializationError):
        decode_session_keys(pa.array([b"1234567890123456", None]))
    with pytest.raises(ConfigError):
        TimeWindowedSerde(Serdes.string(), 0)


@given(st.lists(st.tuples(LONG, st.none() | st.binary(max_size=5)), max_size=10), st.data())
def test_values_with_a_time_come_apart_as_they_were_put_together(
    rows: list[tuple[int, bytes | None]], data: st.DataObject
) -> None:
    values = [value for _, value in rows]
    stored = encode_timestamped(np.array([time for time, _ in rows], dtype=np.int64), values)
    assert stored == [None if v is None else time.to_bytes(8, "big", signed=True) + v for time, v in rows]
    expected = [-1 if value is None else time for time, value in rows]
    times, again = decode_timestamped(stored)
    assert (times.tolist(), again) == (expected, values)
    skipped = data.draw(st.integers(0, len(rows)))
    times, rest = decode_timestamped_array(pa.array(stored, pa.binary())[skipped:])
    assert (times.tolist(), rest.to_pylist()) == (expected[skipped:], values[skipped:])


def test_values_of_one_width_come_apart_too() -> None:
    values: list[bytes | None] = [b"abc", b"def"]
    times, again = decode_timestamped(encode_timestamped(np.array([5, -1]), values))
    assert (times.tolist(), again) == ([5, -1], values)


def test_a_value_too_short_to_have_a_time_is_refused() -> None:
    with pytest.raises(SerializationError, match="at least 8"):
        decode_timestamped([b"1234567"])


def test_times_and_values_of_different_number_are_refused() -> None:
    with pytest.raises(SerializationError):
        encode_timestamped(np.array([1]), [])
    with pytest.raises(SerializationError):
        encode_windowed_keys([b"a"], np.array([1, 2]))
