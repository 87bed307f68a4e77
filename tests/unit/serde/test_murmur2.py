"""The partitioner is Kafka's, one key at a time and many at once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hayase.core.errors import ConfigError
from hayase.serde.murmur2 import (
    murmur2,
    partition_for_key,
    partitions_for_array,
    partitions_for_keys,
)

GOLDEN = Path(__file__).parents[2] / "golden" / "data" / "partitioner.json"


@pytest.fixture(scope="module")
def recorded() -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(GOLDEN.read_text())
    assert len(rows) > 300
    return rows


def test_hashes_are_those_recorded_from_kafka(recorded: list[dict[str, Any]]) -> None:
    assert [murmur2(bytes.fromhex(row["bytes"])) for row in recorded] == [row["murmur2"] for row in recorded]


@pytest.mark.parametrize("partitions", [1, 3, 7, 12])
def test_partitions_are_those_recorded_from_kafka(recorded: list[dict[str, Any]], partitions: int) -> None:
    keys = [bytes.fromhex(row["bytes"]) for row in recorded]
    expected = [row["partitions"][str(partitions)] for row in recorded]
    assert [partition_for_key(key, partitions) for key in keys] == expected
    assert partitions_for_keys(keys, partitions).tolist() == expected


@given(st.lists(st.none() | st.binary(max_size=40), max_size=40), st.integers(1, 50))
def test_many_keys_at_once_go_where_each_goes_alone(keys: list[bytes | None], partitions: int) -> None:
    alone = [at % partitions if k is None else partition_for_key(k, partitions) for at, k in enumerate(keys)]
    together = partitions_for_keys(keys, partitions)
    assert together.tolist() == alone
    assert together.dtype == "int32"


@given(st.lists(st.none() | st.binary(max_size=9), min_size=2, max_size=20), st.data())
def test_slices_and_every_layout_of_arrow_give_the_same_partitions(
    keys: list[bytes | None], data: st.DataObject
) -> None:
    start = data.draw(st.integers(0, len(keys)))
    expected = partitions_for_keys(keys[start:], 7).tolist()
    for layout in (pa.binary(), pa.large_binary(), pa.binary_view()):
        assert partitions_for_array(pa.array(keys, layout)[start:], 7).tolist() == expected


def test_text_and_fixed_size_arrays_hash_their_bytes() -> None:
    assert (
        partitions_for_array(pa.array(["ab", "é"]), 7).tolist()
        == partitions_for_keys([b"ab", "é".encode()], 7).tolist()
    )
    fixed = pa.array([b"abcd", None, b"efgh"], pa.binary(4))
    assert partitions_for_array(fixed, 7).tolist() == partitions_for_keys([b"abcd", None, b"efgh"], 7).tolist()


def test_long_keys_among_short_ones_are_hashed_like_alone() -> None:
    keys = [b"x" * length for length in (0, 3, 4, 5000, 8, 5003, 17, 1001)] * 3
    assert partitions_for_keys(keys, 12).tolist() == [partition_for_key(key, 12) for key in keys]


def test_null_keys_take_turns_by_position() -> None:
    assert partitions_for_keys([None] * 5, 3).tolist() == [0, 1, 2, 0, 1]


@pytest.mark.parametrize("partitions", [0, -1])
def test_a_topic_without_partitions_is_refused(partitions: int) -> None:
    with pytest.raises(ConfigError, match="at least 1"):
        partition_for_key(b"k", partitions)
    with pytest.raises(ConfigError, match="at least 1"):
        partitions_for_keys([b"k"], partitions)
