"""The demo's applications: `examples/ecommerce.py`, `.sql` and `shop`, from the checkout or packed into the wheel."""

from __future__ import annotations

from pathlib import Path

import hayase
from hayase.cli.load import load_file
from hayase.core.errors import ConfigError
from hayase.topology.topology import Topology


def example_file(name: str = "ecommerce.py") -> Path:
    """Where the example is.

    Raises:
        ConfigError: `EXAMPLE_NOT_FOUND`.
    """
    package = Path(hayase.__file__).parent
    places = (Path(__file__).parent / name, package.parents[1] / "examples" / name)
    for place in places:
        if place.is_file():
            return place
    raise ConfigError(
        "EXAMPLE_NOT_FOUND",
        f"{name} is in neither {places[0].parent} nor {places[1].parent}; install hayase again",
    )


def load_example() -> Topology:
    """The topology of the example."""
    topology = load_file(example_file()).topology
    assert isinstance(topology, Topology)
    return topology
