"""docs/migration.md: each of Java's methods beside ours, which exists."""

from __future__ import annotations

import inspect
import runpy
from pathlib import Path
from typing import Any

import pytest

import hayase
import hayase.testing

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = runpy.run_path(str(ROOT / "scripts" / "migration_page.py"))
ROWS = [row for _, rows in SCRIPT["groups"]() for row in rows]
WHOLE = ("StreamsBuilder", "KStream", "KTable", "Topology", "Processor", "ProcessorContext")
"""Classes of which every public method is in the table."""
OWN = {
    "StreamsBuilder": {"complete_at_build"},
    "Topology": {"by_name", "changed", "children", "global_table_ids", "shown_stores", "subtopologies"},
}
"""What is public for Hayase's own use."""


def found(path: str) -> Any:
    """What a dotted name of the package leads to."""
    thing: Any = hayase
    for name in path.split("."):
        thing = getattr(thing, name)
    return thing


def test_the_page_is_what_the_script_writes() -> None:
    page = (ROOT / "docs" / "migration.md").read_text("utf-8")
    assert page == SCRIPT["page"](), "run python scripts/migration_page.py"


@pytest.mark.parametrize("row", [row for row in ROWS if row.ours], ids=lambda row: row.ours)
def test_what_the_table_names_exists(row: Any) -> None:
    assert found(row.ours) is not None


@pytest.mark.parametrize("row", [row for row in ROWS if not row.ours], ids=lambda row: row.java)
def test_where_there_is_nothing_the_table_says_what_to_do(row: Any) -> None:
    assert row.remark


@pytest.mark.parametrize("name", WHOLE)
def test_every_method_of_the_class_is_in_the_table(name: str) -> None:
    told = {row.ours for row in ROWS}
    remarks = " ".join(row.java for row in ROWS)
    for method, _ in inspect.getmembers(getattr(hayase, name), callable):
        if method.startswith("_") or method in OWN.get(name, ()):
            continue
        java = "".join(word.capitalize() for word in method.split("_"))
        assert f"{name}.{method}" in told or (java[0].lower() + java[1:]) in remarks, f"{name}.{method}"
