"""The golden cases: what was recorded from Kafka Streams."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

DATA = Path(__file__).parent / "data" / "dev"

Case = Mapping[str, Any]


class Unsupported(Exception):
    """The case uses an operation or option that Hayase does not have yet."""


def load_cases() -> list[Case]:
    """All cases, by family."""
    return [case for path in sorted(DATA.glob("*.json")) for case in json.loads(path.read_text("utf-8"))]
