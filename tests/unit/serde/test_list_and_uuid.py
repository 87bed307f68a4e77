"""UUIDs and lists: the bytes are those that Kafka 4.3.1's serializers wrote."""

from __future__ import annotations

import uuid
from typing import Any

import pyarrow as pa
import pytest

from hayase.core.errors import SerializationError
from hayase.serde import Serde, Serdes

SOME = uuid.UUID("12345678-1234-5678-1234-567812345678")
RECORDED: list[tuple[Serde[Any], Any, str]] = [
    (Serdes.uuid(), SOME, "31323334353637382d313233342d353637382d313233342d353637383132333435363738"),
    (Serdes.list(Serdes.long()), [1, None, -1], "000000000100000001000000030000000000000001ffffffffffffffff"),
    (Serdes.list(Serdes.string()), ["a", None, ""], "01000000030000000161ffffffff00000000"),
    (Serdes.list(Serdes.boolean()), [True, None], "01000000020000000101ffffffff"),
    (Serdes.list(Serdes.integer()), [], "000000000000000000"),
    (Serdes.list(Serdes.short()), [5], "0000000000000000010005"),
    (Serdes.list(Serdes.float()), [1.5], "0000000000000000013fc00000"),
    (Serdes.list(Serdes.uuid()), [SOME], "000000000000000001" + str(SOME).encode().hex()),
]


@pytest.mark.parametrize(("serde", "value", "expected"), RECORDED)
def test_bytes_are_those_of_kafkas_serializers(serde: Serde[Any], value: Any, expected: str) -> None:
    written = serde.serialize(value)
    assert written is not None and written.hex() == expected
    assert serde.deserialize(written) == value


def test_a_uuid_is_read_in_both_cases_and_written_in_lower_case() -> None:
    codec = Serdes.uuid().columns
    upper = str(SOME).upper().encode()
    decoded = codec.decode(pa.array([upper, None, b"{12345678}"]))
    assert decoded.frame["value"].to_list() == [str(SOME), None, None]
    assert [index for index, _ in decoded.bad] == [2]
    assert Serdes.uuid().deserialize(upper) == SOME


def test_a_column_of_text_that_is_no_uuid_is_refused() -> None:
    codec = Serdes.uuid().columns
    frame, _ = Serdes.string().columns.from_python(["no uuid"])
    with pytest.raises(SerializationError, match="36 characters"):
        codec.encode(frame)


@pytest.mark.parametrize("data", ["", "00", "01000000ff", "0100000001ffffff00", "000000000000000001", "0200000000"])
def test_bytes_that_are_no_list_are_refused(data: str) -> None:
    for serde in (Serdes.list(Serdes.long()), Serdes.list(Serdes.string())):
        with pytest.raises(SerializationError, match="ListSerde reads"):
            serde.deserialize(bytes.fromhex(data))


def test_a_list_of_records_with_fields_exists_in_rows_only() -> None:
    assert Serdes.list(Serdes.json()).columns is None
    assert Serdes.list(Serdes.uuid()).columns is None
