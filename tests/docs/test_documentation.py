"""What the documentation says is there, is there; its code is the code that runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "SECURITY.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "CHANGELOG.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]
_LINK = re.compile(r"\]\(([^)#]+)(?:#[^)]*)?\)")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_link_leads_to_a_file_of_the_project(page: Path) -> None:
    targets = [target for target in _LINK.findall(page.read_text("utf-8")) if "://" not in target]
    missing = [target for target in targets if not (page.parent / target).exists()]
    assert not missing


def test_the_program_in_the_readme_is_the_quickstart_that_is_tested() -> None:
    program = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), re.DOTALL)
    assert program is not None
    quickstart = (ROOT / "examples" / "quickstart.py").read_text("utf-8")
    assert program.group(1).strip() in quickstart


def test_every_operator_that_the_readme_names_is_there() -> None:
    from hayase.dsl import KGroupedStream, KStream, KTable, StreamsBuilder

    named = re.search(r"\*\*DSL\*\*: `([^`]+)`", (ROOT / "README.md").read_text("utf-8"))
    assert named is not None
    names = re.split(r"[,;] ", named.group(1))
    owners = (StreamsBuilder, KStream, KTable, KGroupedStream)
    assert not [name for name in names if not any(hasattr(owner, name) for owner in owners)]


def test_each_line_of_the_compatibility_page_names_a_test_or_says_why_not() -> None:
    page = (ROOT / "docs" / "compatibility.md").read_text("utf-8")
    rows = [
        [cell.strip() for cell in line.split(" | ")]
        for line in page.splitlines()
        if re.search(r" \| (yes|differs|no) \| ", line)
    ]
    assert len(rows) > 150
    for what, kind, remark, test in rows:
        assert _LINK.search(test) if kind == "yes" else remark, what
        assert kind == "no" or _LINK.search(test), what
