"""What fuzzing found, each by name."""

from __future__ import annotations

import struct
import subprocess
import sys
from typing import Any

import polars as pl
import pytest
from tests.fuzz.serdes import registry

from hayase.core.errors import LogError, SerializationError
from hayase.log.kafka.markers import decode_marker
from hayase.serde import Serdes
from hayase.serde.avro_serde import AvroSerde
from hayase.serde.changes import ChangeSerde
from hayase.serde.registry import RegistrySchema
from hayase.serde.subscriptions import AnswerSerde, CombinedKeySerde, SubscriptionSerde, packed
from hayase.state.delta.journal import EdgeRow
from hayase.task.edges import read_row, to_payload
from hayase.task.summary import BundleSummary


def refused_in_both_forms(serde: Any, data: bytes) -> None:
    with pytest.raises(SerializationError):
        serde.deserialize(data)
    good = b"\0" * 8
    assert [row for row, _ in serde.columns.decode_list([data, None]).bad] == [0], good


def written(schema: Any, payload: bytes) -> bytes:
    number = registry().register("found-by-fuzzing", RegistrySchema(schema))
    return b"\0" + number.to_bytes(4, "big") + payload


def test_text_in_avro_that_is_no_utf_8_is_refused_before_it_reaches_polars() -> None:
    serde = AvroSerde("string", registry())
    refused_in_both_forms(serde, written('"string"', b"\x04\xff\x9f"))
    nested = '{"type":"record","name":"R","fields":[{"name":"a","type":{"type":"array","items":["null","string"]}}]}'
    refused_in_both_forms(AvroSerde(nested, registry()), written(nested, b"\x02\x02\x04\xff\x9f\0"))


def test_avro_bytes_are_no_value_of_a_schema_that_is_not_bytes() -> None:
    data = written('"bytes"', b"\x02\x04")
    refused_in_both_forms(AvroSerde("string", registry()), data)
    refused_in_both_forms(AvroSerde("long", registry()), data)
    assert AvroSerde("bytes", registry()).deserialize(data) == b"\x02\x04"
    assert AvroSerde(["null", "bytes"], registry()).deserialize(data) == b"\x02\x04"
    assert AvroSerde(None, registry()).deserialize(data) == b"\x02\x04"


def test_an_avro_decimal_of_more_digits_than_its_precision_is_refused_not_rounded() -> None:
    schema = '{"type":"bytes","logicalType":"decimal","precision":4,"scale":2}'
    serde = AvroSerde(schema, registry())
    assert str(serde.deserialize(written(schema, b"\x04\x27\x0f"))) == "99.99"
    refused_in_both_forms(serde, written(schema, b"\x06\x01\x86\x9f"))  # 999.99


@pytest.mark.parametrize("number", [4, 83, 255])
def test_a_subscription_with_an_unknown_instruction_is_refused(number: int) -> None:
    refused_in_both_forms(SubscriptionSerde(Serdes.string()), packed(number, 1, b"d", b"key"))
    refused_in_both_forms(AnswerSerde(Serdes.string()), packed(number, 1, b"d", b"value"))


def test_a_subscription_that_ends_within_its_digest_is_refused() -> None:
    refused_in_both_forms(SubscriptionSerde(Serdes.string()), packed(2, 1, b"d" * 16, b"key")[:12])


@pytest.mark.parametrize("lengths", [(5, -1), (-2, 1), (-1, 5), (2**31 - 1, 0), (0, -(2**31)), (0, 0)])
def test_an_update_whose_lengths_do_not_add_up_is_refused(lengths: tuple[int, int]) -> None:
    refused_in_both_forms(ChangeSerde(Serdes.string()), struct.pack(">ii", *lengths) + b"a")


def test_a_pair_of_keys_that_ends_within_the_first_is_refused() -> None:
    with pytest.raises(SerializationError):
        CombinedKeySerde(Serdes.string(), Serdes.string()).deserialize(b"\0\0\0\x09right")


@pytest.mark.long
def test_a_damaged_row_between_tasks_is_an_error_with_its_place_not_the_end_of_the_process() -> None:
    program = """
import random
import polars as pl
from tests.unit.serde.test_found_by_fuzzing import *
valid = to_payload(pl.DataFrame({"key": [b"a", None], "value": [b"x" * 20, b""], "ts": [1, 2]}))
for seed in range(300):
    data = bytearray(valid)
    data[random.Random(seed).randrange(len(data))] ^= 0xFF
    try:
        read_row(EdgeRow("1_0", "edge", "0_3", 7, bytes(data)))
    except SerializationError as error:
        assert error.condition == "EDGE_ROW_DAMAGED" and error.context["origin"] == "0_3", error
    else:
        raise SystemExit(f"taken: {seed}")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr[-2000:]


def test_a_row_between_tasks_of_a_version_without_checksums_is_read() -> None:
    frame = pl.DataFrame({"key": [b"a", None], "n": [[{"x": 1}], []], "m": ["é", None]})
    old = frame.write_ipc_stream(None).getvalue()
    assert read_row(EdgeRow("1_0", "e", "0_0", 0, old)).equals(frame)
    assert read_row(EdgeRow("1_0", "e", "0_0", 0, to_payload(frame))).equals(frame)


def test_damaged_markers_and_summaries_are_errors_of_their_own() -> None:
    for data in (b'{"lineage":"\xff"}', b"[" * 10_000, b"", b"5"):
        with pytest.raises(LogError):
            decode_marker(data)
        with pytest.raises(SerializationError):
            BundleSummary.from_bytes(data)
