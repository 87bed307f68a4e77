"""Types: what a type checker says about aggregates."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from hayase import patterns

ROOT = Path(__file__).parents[3]
PROGRAM = """
from tests.unit.patterns.shop import DECIDER, Expired, Order, Place, Placed, Pay, Expire
from hayase.patterns import AggregateState, EventSourced

order = EventSourced("order", DECIDER)


@order.on(Placed)
def fine(event: Placed, own: AggregateState[Order | None]) -> None: ...


order.command("17", Place("book"))
{line}
"""


def test_a_type_checker_sees_each_name_of_the_package_where_it_is_loaded_from() -> None:
    source = ast.parse(Path(patterns.__file__).read_text("utf-8"))
    imports = [node for node in ast.walk(source) if isinstance(node, ast.ImportFrom)]
    seen = {alias.name: node.module for node in imports for alias in node.names if alias.asname == alias.name}
    loaded = {name: f"hayase.patterns.{module}".rstrip(".") for name, module in patterns._MODULE_OF.items()}
    assert seen == loaded


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("", ""),
        ("order.on(Place)", "Place"),
        ('order.command("17", Placed("book"))', "Placed"),
    ],
)
def test_an_event_or_command_that_the_aggregate_does_not_have_is_an_error(
    tmp_path: Path, line: str, error: str
) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM.format(line=line))
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file", ROOT / "pyproject.toml", program],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    errors = [each for each in done.stdout.splitlines() if "program.py" in each and "error:" in each]
    assert bool(errors) == bool(error), done.stdout
    assert not error or error in errors[0]
