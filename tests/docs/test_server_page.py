"""The program in docs/server.md runs as it stands there."""

from __future__ import annotations

import re
from pathlib import Path

from hayase.server.settings import OWN_SETTINGS

PAGE = Path(__file__).resolve().parents[2] / "docs" / "server.md"


def test_the_program_of_the_page_runs() -> None:
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    assert len(blocks) == 2
    exec("\n".join(blocks), {})


def test_the_page_has_every_setting_of_the_server() -> None:
    text = PAGE.read_text("utf-8")
    assert not [name for name in OWN_SETTINGS if f"`{name}`" not in text]
