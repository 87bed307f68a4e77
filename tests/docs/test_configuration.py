"""docs/configuration.md says what the settings say of themselves."""

from __future__ import annotations

import runpy
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_page_is_what_the_script_writes() -> None:
    made = runpy.run_path(str(ROOT / "scripts" / "config_page.py"))["page"]()
    found = (ROOT / "docs" / "configuration.md").read_text("utf-8")
    assert made == found, "settings have changed: run python scripts/config_page.py"
