"""Cases that are known to fail, with the reason: `known_failures.toml`, by hand.

An entry is `["<id of the case>"]` with `reason = "…"`. A case that fails and is not listed is a failure, and so is one
that is listed and passes.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path

FILE = Path(__file__).with_name("known_failures.toml")


def known_failures(path: Path = FILE) -> Mapping[str, str]:
    """The reasons by the cases' ids."""
    entries = tomllib.loads(path.read_text("utf-8")) if path.exists() else {}
    return {case: entry["reason"] for case, entry in entries.items()}


def unexpected_outcome(case_id: str, failure: str | None, known: Mapping[str, str]) -> str | None:
    """What is wrong with how a case ended; `None` if it is as expected."""
    if failure is not None:
        return None if case_id in known else failure
    return f"passes, but is listed as a known failure: {known[case_id]}" if case_id in known else None
