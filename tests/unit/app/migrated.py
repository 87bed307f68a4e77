"""A program in two versions whose values differ, and what makes the new ones of the old."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import polars as pl

from hayase import (
    Consumed,
    JsonSerde,
    Materialized,
    Serdes,
    SessionWindows,
    Stores,
    StreamsBuilder,
    TimeWindows,
    Topology,
)

MINUTE = timedelta(minutes=1)


@dataclass
class Old:
    item: str
    amount: int


@dataclass
class New:
    item: str
    cents: int
    currency: str


def old() -> Topology:
    return _program(Old, lambda row: Old(row["item"], row["amount"]))


def new() -> Topology:
    return _program(New, lambda row: New(row["item"], row["amount"] * 100, "EUR"))


def _program(kind: Any, make: Any) -> Topology:
    """A table, a versioned one, windows, sessions, a store that stays as it is, and a sub-topology without state."""
    builder = StreamsBuilder()
    read = Consumed.with_(Serdes.string(), JsonSerde(schema={"item": pl.String, "amount": pl.Int64}))
    values = builder.stream("orders", read).map_values(make)
    values.to_table(_kept("table", kind))
    versioned = Stores.persistent_versioned_key_value_store("versions", timedelta(hours=1))
    values.to_table(Materialized.as_(versioned).with_key_serde(Serdes.string()).with_value_serde(JsonSerde(kind)))
    grouped = values.group_by_key()
    windows = grouped.windowed_by(TimeWindows.of_size_with_no_grace(MINUTE))
    windows.reduce(_last, _kept("windows", kind).with_retention(timedelta(hours=1)))
    sessions = grouped.windowed_by(SessionWindows.of_inactivity_gap_with_no_grace(MINUTE))
    sessions.reduce(_last, _kept("sessions", kind).with_retention(timedelta(hours=1)))
    grouped.count(Materialized.as_("counts"))
    builder.stream("others", read).filter(pl.col("amount") > 0).to("out")
    return builder.build()


def _kept(name: str, kind: Any) -> Materialized[Any, Any]:
    kept: Materialized[Any, Any] = Materialized.as_(name)
    return kept.with_key_serde(Serdes.string()).with_value_serde(JsonSerde(kind))


def _last(_: Any, value: Any) -> Any:
    return value


def with_currency(value: dict[str, Any]) -> New | None:
    """The function of the migration; what costs nothing is deleted."""
    return New(value["item"], value["amount"] * 100, "EUR") if value["amount"] else None


def kept_with_currency(value: dict[str, Any]) -> dict[str, Any]:
    """The same as a dict, and nothing is deleted."""
    return {"item": value["item"], "cents": value["amount"] * 100, "currency": "EUR"}


STORES = ("table", "versions", "windows", "sessions")
OPTIONS = {"table": with_currency, "versions": kept_with_currency, "windows": with_currency, "sessions": with_currency}
