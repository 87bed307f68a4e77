"""Every recipe of docs/cookbook.md runs, and comes out as it says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

PAGE = Path(__file__).resolve().parents[2] / "docs" / "cookbook.md"
_BLOCK = re.compile(r"(?:^## (?P<title>.+?)$.*?)?^```python\n(?P<code>.*?)^```$", re.DOTALL | re.MULTILINE)
BLOCKS = [(found["title"] or "the beginning", found["code"]) for found in _BLOCK.finditer(PAGE.read_text("utf-8"))]


@pytest.fixture(scope="module")
def names() -> dict[str, Any]:
    """What the page begins with."""
    made: dict[str, Any] = {}
    exec(BLOCKS[0][1], made)
    return made


@pytest.mark.parametrize("code", [code for _, code in BLOCKS[1:]], ids=[title for title, _ in BLOCKS[1:]])
def test_the_recipe_comes_out_as_it_says(code: str, names: dict[str, Any]) -> None:
    assert "assert outcome(" in code
    exec(code, names)
