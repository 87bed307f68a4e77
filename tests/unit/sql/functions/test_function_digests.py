"""Digests of functions: another one where what a function does may be another, the same for comments and layout."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hayase.sql.functions.declarations import declared_in
from hayase.sql.functions.function_digests import function_digest
from hayase.sql.functions.python_source import python_declaration
from hayase.sql.types.sql_types import INTEGER

HEAD = "from hayase.sql.functions.registry import udaf, udf\n"
FUNCTION = """
import math
from digest_helpers import LIMIT, half
import digest_module

RATE = 3
unused = 1

def helper(v):
    return v * RATE

@udf("F", "(INT) -> INT")
def f(v):
    '''What it does.'''
    return helper(v) + half(v) + LIMIT + digest_module.ONE  # of the year
"""
HELPERS = "LIMIT = 7\nOTHER = 8\n\ndef half(v):\n    return v // 2\n"
MODULE = "ONE = 1\n"
NAMES = ("digest_functions", "digest_helpers", "digest_module")


@pytest.fixture(autouse=True)
def modules_are_forgotten() -> Iterator[None]:
    before = list(sys.path)
    yield
    sys.path[:] = before
    for name in NAMES:
        sys.modules.pop(name, None)


def digest(folder: Path, function: str = FUNCTION, helpers: str = HELPERS, module: str = MODULE) -> str:
    """Of the last function that a module declares."""
    folder.mkdir()
    for name, text in zip(NAMES, (HEAD + function, helpers, module), strict=True):
        (folder / f"{name}.py").write_text(text)
        sys.modules.pop(name, None)
    sys.path.insert(0, str(folder))
    importlib.invalidate_caches()
    importlib.import_module(NAMES[0])
    return function_digest(declared_in(NAMES[0])[-1])


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("  # of the year", ""),
        ("helper(v) + half(v)", "(helper(v)\n        + half(v))"),
        ("'''What it does.'''\n", "'''Something else.'''\n"),
        ("unused = 1", "unused = 2"),
    ],
)
def test_comments_layout_and_what_it_does_not_use_do_not_count(tmp_path: Path, old: str, new: str) -> None:
    assert digest(tmp_path / "a") == digest(tmp_path / "b", FUNCTION.replace(old, new))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("+ half(v)", "- half(v)"),
        ("RATE = 3", "RATE = 4"),
        ("v * RATE", "v + RATE"),
        ("(INT) -> INT", "(INT) -> BIGINT"),
        ('-> INT"', '-> INT", pure=True'),
    ],
)
def test_its_body_its_declaration_and_what_it_uses_of_its_module_count(tmp_path: Path, old: str, new: str) -> None:
    assert digest(tmp_path / "a") != digest(tmp_path / "b", FUNCTION.replace(old, new))


@pytest.mark.parametrize(
    ("old", "new", "counts"), [("v // 2", "v // 3", True), ("LIMIT = 7", "LIMIT = 9", True), ("= 8", "= 9", False)]
)
def test_what_it_uses_of_another_module_counts(tmp_path: Path, old: str, new: str, counts: bool) -> None:
    changed = digest(tmp_path / "b", helpers=HELPERS.replace(old, new))
    assert (digest(tmp_path / "a") != changed) is counts


def test_a_module_that_is_used_as_a_whole_counts_as_a_whole(tmp_path: Path) -> None:
    assert digest(tmp_path / "a") != digest(tmp_path / "b", module=MODULE + "TWO = 2\n")


def test_a_lambda_has_a_digest_of_its_whole_module(tmp_path: Path) -> None:
    text = 'RATE = 3\nudf("F", "(INT) -> INT")(lambda v: v * RATE)\n'
    assert digest(tmp_path / "a", text) == digest(tmp_path / "b", text + "# behind\n")
    assert digest(tmp_path / "c", text) != digest(tmp_path / "d", text.replace("3", "4"))


def test_an_object_that_has_no_hash_has_a_digest(tmp_path: Path) -> None:
    text = "class Twice:\n    __hash__ = None\n    def __call__(self, v):\n        return v * 2\n\n"
    text += 'udf("F", "(INT) -> INT")(Twice())\n'
    assert digest(tmp_path / "a", text) != digest(tmp_path / "b", text.replace("v * 2", "v * 3"))


def test_a_class_of_an_aggregate_and_its_base_count(tmp_path: Path) -> None:
    text = "class Base:\n    ONE = 1\n\n"
    text += '@udaf("F", "(INT) -> INT")\nclass F(Base):\n    def add(self, state, v):\n        return self.ONE\n'
    assert digest(tmp_path / "a", text) != digest(tmp_path / "b", text.replace("ONE = 1", "ONE = 2"))


def test_functions_of_statements_differ_by_their_python_and_their_parameters() -> None:
    def of(parameter: str, body: str) -> str:
        return function_digest(python_declaration("F", [(parameter, INTEGER)], INTEGER, body))

    assert of("X", "x * 2") == of("X", "x * 2")
    assert len({of("X", "x * 2"), of("X", "x * 3"), of("Y", "y * 2")}) == 3
