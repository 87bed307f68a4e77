"""The services of `examples/shop` as one application that the crash suite kills.

`python -m tests.crash.shop_under_test SPEC.json`, a process of its own.
"""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

from tests.crash.app_under_test import Spec, main

from hayase import StreamsBuilder, Topology
from hayase.cli.load import load_file
from hayase.patterns import PatternsApp

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "shop"


def services() -> dict[str, ModuleType]:
    """The modules of the services, by name."""
    return {name: load_file(FOLDER / f"{name}.py") for name in ("orders", "stock", "payments", "shipping")}


def build(_: Spec) -> Topology:
    """All aggregates, and the saga."""
    found, builder = services(), StreamsBuilder()
    orders = found["orders"]
    for part in (orders.order, orders.checkout, found["stock"].stock, found["payments"].payment):
        part.add_to(builder)
    found["shipping"].parcel.add_to(builder)
    return builder.build()


if __name__ == "__main__":
    main(build, PatternsApp)
