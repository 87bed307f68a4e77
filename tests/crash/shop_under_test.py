"""The services of `examples/shop` as one application that the crash suite kills.

`python -m tests.crash.shop_under_test SPEC.json`, a process of its own.
"""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

from tests.crash.app_under_test import Spec, main

from hayase import Topology
from hayase.cli.load import load_file
from hayase.patterns import PatternsApp

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "shop"


def services() -> dict[str, ModuleType]:
    """The modules of the services, by name."""
    return {name: load_file(FOLDER / f"{name}.py") for name in ("orders", "stock", "payments", "shipping")}


def build(_: Spec) -> Topology:
    """All aggregates, and the saga."""
    found = services()
    others = found["stock"].stock, found["payments"].payment, found["shipping"].parcel, found["orders"].checkout
    topology: Topology = found["orders"].order.topology(*others)
    return topology


if __name__ == "__main__":
    main(build, PatternsApp)
