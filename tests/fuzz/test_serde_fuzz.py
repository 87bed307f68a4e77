"""No bytes make a serde do anything but return a value or raise SerializationError, in rows as in columns."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from tests.fuzz.inputs import run
from tests.fuzz.serdes import NAMES, case

from hayase.core.errors import SerializationError
from hayase.core.records import Change
from hayase.serde.protocol import ColumnCodec, Serde

BAD = "bad"


def read_in_rows(serde: Serde[Any], data: bytes | None) -> Any:
    """The value, or BAD; what else is raised fails the test, with the input."""
    try:
        return comparable(serde.deserialize(data))
    except SerializationError:
        return BAD
    except BaseException as error:
        raise AssertionError(f"{type(error).__name__} for {'' if data is None else data.hex()}") from error


def read_in_columns(codec: ColumnCodec, batch: list[bytes | None]) -> list[Any]:
    """The same, all at once."""
    found = codec.decode_list(batch)
    assert found.frame.height == len(batch)
    assert [row for row, _ in found.bad] == sorted({row for row, _ in found.bad})
    assert all(isinstance(error, SerializationError) for _, error in found.bad)
    bad = {row for row, _ in found.bad}
    assert not any(found.null[row] for row in bad)
    good = pl.Series([row not in bad for row in range(len(batch))], dtype=pl.Boolean)
    values = iter(codec.to_python(found.frame.filter(good), found.null.filter(good)))
    return [BAD if row in bad else comparable(next(values)) for row in range(len(batch))]


def comparable(value: Any) -> Any:
    """The value, so that NaN equals itself; tuples as lists."""
    if isinstance(value, float) and math.isnan(value):
        return "NaN"
    if value == Change(None, None):  # in columns that is how no update at all looks; none is ever sent
        return None
    if isinstance(value, dict):
        return {key: comparable(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [comparable(each) for each in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return [comparable(getattr(value, field.name)) for field in dataclasses.fields(value)]
    return value


@pytest.mark.parametrize("name", NAMES)
def test_damaged_bytes_are_refused_or_read_alike_in_rows_and_columns(name: str, inputs: int, tmp_path: Path) -> None:
    serde, corpus = case(name)
    codec = serde.columns

    def check(batch: list[bytes | None]) -> None:
        rows = [read_in_rows(serde, data) for data in batch]
        if codec is None:
            return
        for data, row, column in zip(batch, rows, read_in_columns(codec, batch), strict=True):
            assert row == column, (
                f"{name}: {row!r} in rows, {column!r} in columns: {None if data is None else data.hex()}"
            )

    run(name, corpus, max(5, int(inputs * 0.8) // len(NAMES)), tmp_path, check)
