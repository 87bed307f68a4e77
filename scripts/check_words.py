"""Words that the project does not use, with what to write instead: part of `make lint`."""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
INSTEAD = {"can not": "cannot", r"of the user's(?=[,;.])": "of the user"}
WHO = dict.fromkeys(
    ("nobody", "somebody", "anybody", "no one", "someone", "anyone", "whoever"), "say which process, node or user"
)
"""Not in tests, where it is a user's name, or a key's."""
_FOLDERS = ("src", "tests", "docs", "bench", "scripts", "examples")


def pages() -> list[Path]:
    """Python files and pages of the project."""
    found = [path for folder in _FOLDERS for kind in ("*.py", "*.md", "*.toml") for path in (ROOT / folder).rglob(kind)]
    return sorted([*found, *ROOT.glob("*.md")])


def main() -> int:
    """Print each place; 1 if there is one."""
    count = 0
    for path in pages():
        if path == Path(__file__).resolve():
            continue
        words = INSTEAD if path.is_relative_to(ROOT / "tests") else INSTEAD | WHO
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
            for word, better in words.items():
                if re.search(rf"\b{word}\b", line, re.IGNORECASE):
                    print(f"{path.relative_to(ROOT)}:{number}: {word!r}: {better}")
                    count += 1
    return int(count > 0)


if __name__ == "__main__":
    sys.exit(main())
