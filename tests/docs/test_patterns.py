"""The programs of docs/patterns.md run, in one namespace."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

PAGE = Path(__file__).resolve().parents[2] / "docs" / "patterns.md"


def test_the_programs_of_the_page_run_and_come_out_as_they_say(monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    assert len(blocks) >= 7
    module = ModuleType("page_of_patterns")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), module.__dict__)
