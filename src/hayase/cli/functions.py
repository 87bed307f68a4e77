"""The functions of SQL that a command has: ksqlDB's, and those that its user declares."""

from __future__ import annotations

from pathlib import Path

from hayase.core.errors import ConfigError
from hayase.sql.functions.declarations import declared_in
from hayase.sql.functions.registry import FunctionRegistry, default_registry


def registry_with(places: list[str]) -> FunctionRegistry:
    """All functions of ksqlDB, and those that files and modules declare; those of files go to workers by value."""
    registry = default_registry()
    for place in places:
        name = place
        if place.endswith(".py"):
            from hayase.cli.load import load_file  # both are slow to import
            from hayase.runtime.wire.pickling import by_value

            module = load_file(Path(place))
            by_value(module)
            name = module.__name__
        registry.load_module(name)
        if not declared_in(name):
            raise ConfigError(
                "NO_FUNCTIONS", f"--functions {place} declares no function: decorate some with udf, udaf or udtf"
            )
    return registry
