"""docs/sql/settings.md says what the settings of SQL are."""

from __future__ import annotations

import runpy
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_page_is_what_the_script_writes() -> None:
    made = runpy.run_path(str(ROOT / "scripts" / "sql_settings_page.py"))["page"]()
    found = (ROOT / "docs" / "sql" / "settings.md").read_text("utf-8")
    assert made == found, "settings have changed: run python scripts/sql_settings_page.py"
