"""Of the changes of one key the last is written; equal decimals and floats are one key, however they are written."""

from __future__ import annotations

from decimal import Decimal

import pytest

from hayase.connect.config.config_def import TypedConfig
from hayase.connect.sql.postgres_sink import PostgresSinkConnector
from hayase.connect.sql.postgres_writer import RowWriter, _last_changes, copy_columns
from hayase.connect.sql.row_change import RowChange, RowChangeKind
from hayase.connect.sql.row_columns import RowColumns
from hayase.connect.sql.sink_config import InsertMode

SAME = pytest.mark.parametrize(
    ("first", "second"), [(Decimal("1.0"), Decimal("1.00")), (Decimal("-0.0"), Decimal(0)), (-0.0, 0.0)]
)
DIGITS = "0." + "1" * 40


@SAME
def test_by_column_equal_numbers_are_one_key(first: object, second: object) -> None:
    columns = copy_columns(RowColumns("t", {"k": [first, second]}, None, {"n": [1, 2]}, {}))
    assert columns is not None
    assert _last_changes(columns) == ([[str(second)], ["2"]], [[]])


@SAME
def test_by_row_equal_numbers_are_one_key(first: object, second: object) -> None:
    config = TypedConfig(PostgresSinkConnector.config(), {"connection.url": "postgresql://localhost/none"})
    writes = [
        RowChange("t", RowChangeKind.WRITE, {"k": key}, {"n": number}, {}) for number, key in ((1, first), (2, second))
    ]
    assert RowWriter(config, InsertMode.UPSERT)._runs(writes) == [writes[1:]]


def test_decimals_that_differ_in_a_late_digit_are_two_keys() -> None:
    keys: list[object] = [Decimal(DIGITS + "1"), Decimal(DIGITS + "2")]
    columns = copy_columns(RowColumns("t", {"k": keys}, None, {}, {}))
    assert columns is not None
    assert _last_changes(columns) == ([[str(key) for key in keys]], [[]])
