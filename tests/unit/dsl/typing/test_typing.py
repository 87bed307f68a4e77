"""Type hints of the DSL carry the types of keys and values."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hayase import Consumed, Joined, KStream, KTable, Materialized, Serde, Serdes, Windowed

pytestmark = pytest.mark.long  # mypy reads Hayase and Polars

ROOT = Path(__file__).parents[4]


def mypy(*files: str) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *files],
        cwd=ROOT,
        env={**os.environ, "MYPYPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def test_mypy_finds_the_types_that_a_topology_has_and_the_mistakes_in_it() -> None:
    code, said = mypy(
        "tests/unit/dsl/typing/typed_topology.py",
        "examples/quickstart.py",
        "examples/ecommerce.py",
        "examples/typed.py",
    )
    assert code == 0, said


def test_the_generic_classes_take_types_at_run_time_and_stay_what_they_are() -> None:
    made = Consumed[str, int].with_(Serdes.string(), Serdes.long())
    assert isinstance(made, Consumed)
    assert [each.__origin__ for each in (KStream[str, int], KTable[Windowed[str], int])] == [KStream, KTable]
    assert Materialized[str, int].as_("store") == Materialized.as_("store")
    assert Joined[str, int, str].__args__ == (str, int, str)
    assert Serde[str].__origin__ is Serde
