"""Counts orders by group behind an internal topic of its own, or at once, by turns: `… SPEC.json`.

Each start has the other topology, and reads what the one before has left in the internal topic first. With the setting
`app.shared` it is a topology of a shared runtime, beside a neighbour.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import msgspec
import polars as pl
from tests.crash.app_under_test import Spec, run
from tests.crash.input import DRAINED_GROUPS
from tests.crash.shared_app_under_test import counting, run_shared

from hayase import Consumed, Grouped, Materialized, Produced, Repartitioned, Serdes, StreamsBuilder, Topology

SHARED = "app.shared"


def group_of(key: str, value: dict[str, Any]) -> str:
    """The group of an order."""
    return f"g{value['id'] % DRAINED_GROUPS}"


def _first() -> dict[str, int]:
    return {"n": 0, "id": -1}


def _next(_: str, value: dict[str, int], before: dict[str, int]) -> dict[str, int]:
    return {"n": before["n"] + 1, "id": value["id"]}


def build(prefix: str, *, through: bool) -> Topology:
    """How many orders each group has had, and the last of them; `through` an internal topic."""
    builder = StreamsBuilder()
    text, json = Serdes.string(), Serdes.json(schema={"id": pl.Int64})
    orders = builder.stream(f"{prefix}orders", Consumed.with_(text, json))
    if through:
        again = Repartitioned.as_("again").with_key_serde(text).with_value_serde(json)
        grouped = orders.select_key(group_of, name="rekeyed").repartition(again).group_by_key()
    else:
        grouped = orders.group_by(group_of, Grouped.with_(text, json, name="at-once"))
    stored = Materialized.as_("drained").with_key_serde(text).with_value_serde(Serdes.json())
    table = grouped.aggregate(_first, _next, stored, name="count")
    table.to_stream().to(f"{prefix}drained", Produced.with_(text, Serdes.json()))
    return builder.build()


def main() -> int:
    """Run; the number of the start says with which topology."""
    path = Path(sys.argv[1])
    start = int(path.stem.rpartition("-")[2])
    spec = msgspec.json.decode(path.read_bytes(), type=Spec)
    through = start % 2 == 0
    if spec.settings.pop(SHARED, None):
        neighbours = {"users": counting(f"{spec.prefix}users", f"{spec.prefix}counted-users")}
        return run_shared(spec, build(spec.prefix, through=through), neighbours)
    return run(lambda given: build(given.prefix, through=through))


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)
