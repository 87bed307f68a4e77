"""The page of SQL's functions is made from their declarations."""

from __future__ import annotations

import runpy
from pathlib import Path

from hayase.sql.functions.registry import FunctionKind, default_registry

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = runpy.run_path(str(ROOT / "scripts" / "functions_page.py"))


def test_the_page_is_what_the_script_makes() -> None:
    found = (ROOT / "docs" / "sql" / "functions.md").read_text(encoding="utf-8")
    assert SCRIPT["page"]() == found, "functions have changed: run python scripts/functions_page.py"


def test_every_pure_scalar_function_has_an_example() -> None:
    registry = default_registry()
    pure = {
        name
        for name in registry.names(FunctionKind.SCALAR)
        if any(overload.pure and overload.signature.parameters for overload in registry.overloads(name))
    }
    examples = {line.partition("(")[0] for line in SCRIPT["EXAMPLES"].strip().splitlines()}
    assert pure - examples == {"UNIX_DATE", "UNIX_TIMESTAMP", "UUID"}
