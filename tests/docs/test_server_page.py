"""The program in docs/server.md runs as it stands there."""

from __future__ import annotations

import re
from pathlib import Path

from hayase.server.settings import OWN_SETTINGS
from hayase.sql.settings import SETTINGS

PAGE = Path(__file__).resolve().parents[2] / "docs" / "server.md"
IN_WORDS = {
    "ksql.query.pull.max.qps": "no limit",
    "ksql.query.pull.max.concurrent.requests": "no limit",
    "hayase.server.pull.max.rows": "no limit",
    "ksql.hidden.topics": "internal topics",
    "ksql.readonly.topics": "internal topics",
    "ksql.schema.registry.url": "an embedded registry",
}
"""Defaults that the page says in words."""


def test_the_program_of_the_page_runs() -> None:
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    assert len(blocks) == 2
    exec("\n".join(blocks), {})


def test_the_page_has_the_default_of_every_setting_of_the_server() -> None:
    rows = [line.split("|")[1:-1] for line in PAGE.read_text("utf-8").splitlines() if line.startswith("| `")]
    shown = {name: row[1].strip().strip("`") for row in rows for name in re.findall("`([^`]+)`", row[0])}
    defaults = {name: IN_WORDS.get(name, SETTINGS[name].default or "") for name in OWN_SETTINGS}
    assert {name: shown.get(name) for name in OWN_SETTINGS} == defaults
