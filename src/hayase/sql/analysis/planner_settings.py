"""Settings that the analysis looks at."""

from __future__ import annotations

from collections.abc import Mapping

NEW_PLANNER = "ksql.new.query.planner.enabled"


def is_true(settings: Mapping[str, object], name: str) -> bool:
    """Whether a setting that is true or false is true."""
    return str(settings.get(name, "false")).lower() == "true"
