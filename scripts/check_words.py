"""Words and constructions that the project does not use, with what to write instead: part of `make lint`.

Prose is everything in Python files and Markdown pages but inline code in Markdown and what stands between
`<!-- words: off -->` and `<!-- words: on -->`. Lines of Markdown have at most 120 characters, as ruff checks for
Python; rows of tables, fenced output (```text) and the targets of links do not count.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LINE_MAX = 120

_STOP = r"(?=[,.;:)\]\"]|\s+(?:that|which|and|or|is|are|was|were|has|have|in|on|at|from|to|with|for|by|as)\b)"
"""Where a noun phrase ends: what comes before it has no noun behind it."""


@dataclass(frozen=True)
class Rule:
    """A construction to avoid.

    Attributes:
        pattern: regular expression, without regard to case.
        better: what to write instead.
        tests: whether it holds in tests, too, where some of these are names of users, keys and variables.
    """

    pattern: str
    better: str
    tests: bool = True


RULES = (
    Rule(r"\bcan not\b", "cannot"),
    Rule(r"\bfor ever\b", "forever"),
    Rule(r"\bof (?:the |a |an )?\w+'s" + _STOP, "no second genitive: 'files of the user', 'a Spark DataFrame'"),
    Rule(r"\bthere (?:is|are|was|were) what\b", "name the thing: 'the file holds …'"),
    Rule(
        r"\b(?:nobody|somebody|anybody|no one|someone|anyone|whoever|whomever)\b", "which process, node, user?", False
    ),
    Rule(r"(?:^|[.:;] |\"\"\"|# )who (?!=)(?![^.]*\?)", "'a process that …', 'the holder of …'"),
    Rule(r"\b(?:whatsoever|upon|hence|thus|thereby|therein|wherein|whereby|lest|albeit|whilst|anew)\b", "a plain word"),
    Rule(r"\b(?:seats?|doors?|knocks?|knocked|hubs?|conductors?|deserted)\b", "the term of Kafka Streams or Spark"),
    Rule(r"\b(?:stands? up|stood up|standing up|dealt out|gets? on no more|come what may|to be had)\b", "a plain verb"),
    Rule(r"\btold\b(?!-)", "reported, called with, known, distinguished", tests=False),
    Rule(r"\b(?:mend|mends|mended|mending)\b", "fix, correct"),
    Rule(r"\bno more(?=[.,;:)\"]|$)", "no longer"),
    Rule(r"(?<!\ba )\bpass(?:ed|es)? over\b", "skip"),
    Rule(r"\b(?:is|are|was|were|be) through\b", "complete, processed, done"),
    Rule(r"\bbut for\b", "except for"),
    Rule(r"\bat hand\b", "current"),
    Rule(r"\bcomes? to the same\b", "are equal, have the same result"),
    Rule(r"\bshould (?:it|they)\b", "if it …"),
    Rule(r"\bin vain\b", "without result"),
    Rule(r"\bfor want of\b", "for lack of"),
    Rule(r"\bfor good\b", "permanently"),
    Rule(r"\bwhat there (?:is|was|are|were)\b", "name the thing"),
    Rule(r"\b(?:come|comes|came|coming) through\b(?! (?:the|an?|this)\b)", "complete, succeed"),
)
_FOLDERS = ("src", "tests", "docs", "bench", "scripts", "examples")
_LINK_TARGET = re.compile(r"\]\([^)]*\)")
_CODE = re.compile(r"`[^`]*`")


def faults(lines: list[str], *, markdown: bool = False, in_tests: bool = False) -> Iterator[tuple[int, str]]:
    """The number of each line with a fault, and what it is."""
    rules = [(re.compile(rule.pattern, re.IGNORECASE), rule) for rule in RULES if rule.tests or not in_tests]
    fence, checked = "", True
    for number, line in enumerate(lines, 1):
        if line.strip().startswith("```"):
            fence = "" if fence else line.strip()
        if line.strip() in ("<!-- words: off -->", "<!-- words: on -->"):
            checked = line.strip().endswith("on -->")
        prose = _CODE.sub("``", line) if markdown and not fence else line
        for pattern, rule in rules if checked else ():
            if match := pattern.search(prose):
                yield number, f"{match.group().strip()!r}: {rule.better}"
        if markdown and not line.startswith("|") and fence != "```text" and (length := _length(line)) > LINE_MAX:
            yield number, f"{length} characters in a line; {LINE_MAX} are allowed"


def pages() -> list[Path]:
    """Python files and pages of the project, but for this one and its test."""
    found = [
        path
        for folder in _FOLDERS
        for kind in ("*.py", "*.md", "*.toml")
        for path in (ROOT / folder).rglob(kind)
        if not any(part.startswith(".venv") for part in path.parts)  # environments of the benchmark's peers
    ]
    return sorted(path for path in [*found, *ROOT.glob("*.md")] if not path.stem.endswith("check_words"))


def main() -> int:
    """Print each place; 1 if there is one."""
    count = 0
    for path in pages():
        lines = path.read_text("utf-8").splitlines()
        if path.parent.name == "decisions":
            lines[0] = ""  # decisions keep the titles that they were given
        for number, fault in faults(lines, markdown=path.suffix == ".md", in_tests=path.is_relative_to(ROOT / "tests")):
            print(f"{path.relative_to(ROOT)}:{number}: {fault}")
            count += 1
    return int(count > 0)


def _length(line: str) -> int:
    """Characters of a line of Markdown without the targets of its links."""
    return len(_LINK_TARGET.sub("]", line))


if __name__ == "__main__":
    sys.exit(main())
