"""The services of `examples/shop` as one application that the crash suite kills.

`python -m tests.crash.shop_under_test SPEC.json`, a process of its own.
"""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from types import ModuleType

from tests.crash.app_under_test import Spec, main
from tests.examples.ways_of_answers import answers_through_topics

from hayase import Topology
from hayase.cli.load import load_file
from hayase.patterns import PatternsApp

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "shop"


def services() -> dict[str, ModuleType]:
    """The modules of the services, by name."""
    return {name: load_file(FOLDER / f"{name}.py") for name in ("orders", "stock", "payments", "shipping")}


def build(spec: Spec) -> Topology:
    """All aggregates, and the saga; `through`: it reads their answers from their topics."""
    found = services()
    others = found["stock"].stock, found["payments"].payment, found["shipping"].parcel, found["orders"].checkout
    with answers_through_topics() if spec.through else nullcontext():
        topology: Topology = found["orders"].order.topology(*others)
    return topology


if __name__ == "__main__":
    main(build, PatternsApp)
