"""Rows of stores as Polars frames."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import msgspec
import polars as pl

from hayase.core.records import Window, Windowed
from hayase.query.stores import StoreRow, StoreRows

TIME = pl.Datetime("ms", "UTC")


@dataclass
class Total:
    n: int
    price: Decimal


class Kept(msgspec.Struct):
    n: int


def frame(*rows: tuple[Any, Any, int | None]) -> pl.DataFrame:
    return StoreRows(tuple(StoreRow(*row) for row in rows), 3, {0: 3}).to_polars()


def test_keys_values_and_times_are_columns() -> None:
    found = frame(("a", {"n": 1, "item": "pen"}, 5), ("b", {"n": 2, "item": None}, None))
    assert found.schema == {"key": pl.String, "value": pl.Struct({"n": pl.Int64, "item": pl.String}), "timestamp": TIME}
    assert found["timestamp"].to_list() == [datetime(1970, 1, 1, 0, 0, 0, 5000, UTC), None]
    assert frame((1, 7, 0)).rows() == [(1, 7, datetime(1970, 1, 1, tzinfo=UTC))]


def test_dataclasses_and_structs_are_structs() -> None:
    assert frame(("a", Total(1, Decimal("2.50")), 0))["value"].to_list() == [{"n": 1, "price": Decimal("2.50")}]
    assert frame((Kept(1), Kept(2), 0)).drop("timestamp").rows() == [({"n": 1}, {"n": 2})]


def test_windows_have_their_start_and_end() -> None:
    found = frame((Windowed("a", Window(10, 20)), 1, 15))
    assert found.columns == ["key", "window_start", "window_end", "value", "timestamp"]
    assert found.select(pl.col("window_start", "window_end").dt.epoch("ms")).rows() == [(10, 20)]


def test_without_rows_there_are_no_types() -> None:
    assert frame().schema == {"key": pl.Null, "value": pl.Null, "timestamp": TIME}
