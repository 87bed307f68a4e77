"""Compares an output topic with the result of a batch computation over the same orders."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import duckdb
import msgspec

from bench.avro import decode_avro
from bench.data import Orders, Products, Users
from bench.scenarios import Scenario

Result = Mapping[Any, Any]
"""A table: key -> value.

Otherwise: (key, value) -> how often. A windowed key is (key, start of the window), or (key, start, end).
"""

_SHOWN = 5
_START_BYTES = 8


def expected_result(
    scenario: Scenario, orders: Orders, users: Users | None = None, products: Products | None = None
) -> Result:
    """What the scenario must produce, computed by DuckDB."""
    with duckdb.connect() as connection:
        connection.register("orders", orders.to_arrow())
        if users is not None:
            connection.register("users", users.to_arrow())
        if products is not None:
            connection.register("products", products.to_arrow())
        rows = connection.execute(scenario.expected_sql).fetchall()
    make = scenario.value_type
    if scenario.windowed:
        width = 3 if scenario.sessions else 2
        pairs = ((row[:width], make(*row[width:])) for row in rows)
    else:
        pairs = ((row[0], make(*row[1:])) for row in rows)
    return dict(pairs) if scenario.table else Counter(pairs)


def produced_result(scenario: Scenario, records: Iterable[tuple[bytes, bytes | None]]) -> Result:
    """What lies in the output topic.

    Args:
        scenario: says how to read it.
        records: keys and values as a `read_committed` reader sees them.

    Raises:
        msgspec.ValidationError: a value is not of the scenario's type.
    """
    in_avro = scenario.input.value_format == "avro"
    decode = decode_avro if in_avro else msgspec.json.Decoder(scenario.value_type).decode
    key_of = (_session_key if scenario.sessions else _windowed_key) if scenario.windowed else bytes.decode
    if not scenario.table:
        return Counter((key_of(key), decode(value)) for key, value in records if value is not None)
    last = dict(records)
    return {key_of(key): decode(value) for key, value in last.items() if value is not None}


def difference(expected: Result, produced: Result) -> str | None:
    """The first differences, or None if both are equal."""
    if expected == produced:
        return None
    keys = [key for key in expected.keys() | produced.keys() if expected.get(key) != produced.get(key)]
    shown = "; ".join(
        f"{key}: expected {expected.get(key)}, got {produced.get(key)}" for key in sorted(keys, key=str)[:_SHOWN]
    )
    return f"{len(keys)} of {len(expected)} entries differ: {shown}"


def _windowed_key(data: bytes) -> tuple[str, int]:
    return data[:-_START_BYTES].decode(), int.from_bytes(data[-_START_BYTES:], "big")


def _session_key(data: bytes) -> tuple[str, int, int]:
    key, end_ms = _windowed_key(data[:-_START_BYTES])
    return key, int.from_bytes(data[-_START_BYTES:], "big"), end_ms
