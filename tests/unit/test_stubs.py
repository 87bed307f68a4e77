"""The thin stubs of packages without types name only what is there."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path

import pytest

STUBS = Path(__file__).parents[2] / "stubs"
MADE_AT_RUN_TIME = ("google",)
"""Packages whose classes get their members as they run."""


@pytest.mark.parametrize("stub", sorted(STUBS.rglob("*.pyi")), ids=lambda stub: str(stub.relative_to(STUBS)))
def test_what_a_stub_names_is_in_its_package(stub: Path) -> None:
    module = importlib.import_module(module_of(stub))
    missing = [name for name in named(stub) if not has(module, name)]
    assert not missing


def test_every_package_with_a_stub_is_looked_at() -> None:
    assert {stub.relative_to(STUBS).parts[0] for stub in STUBS.rglob("*.pyi")} >= {"pyarrow", "google", "botocore"}


def module_of(stub: Path) -> str:
    return ".".join(stub.relative_to(STUBS).with_suffix("").parts).removesuffix(".__init__")


def named(stub: Path) -> Iterator[str]:
    """Functions and classes, and the methods of these."""
    for statement in ast.parse(stub.read_text()).body:
        if isinstance(statement, ast.FunctionDef | ast.ClassDef):
            yield statement.name
        if isinstance(statement, ast.ClassDef) and not module_of(stub).startswith(MADE_AT_RUN_TIME):
            for member in statement.body:
                if isinstance(member, ast.FunctionDef) and member.name != "__buffer__":  # of C, before Python 3.12
                    yield f"{statement.name}.{member.name}"


def has(module: object, name: str) -> bool:
    """Private names are the stub's own."""
    owner = module
    for part in name.split("."):
        if part.startswith("_") and not part.startswith("__"):
            return True
        if not hasattr(owner, part):
            return False
        owner = getattr(owner, part)
    return True
