"""Programs of the documentation as files: the recipes of the cookbook, and what comes of each."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hayase import Serde, Serdes, StreamsBuilder

_PAGE = Path(__file__).resolve().parents[2] / "docs" / "cookbook.md"
_BLOCK = re.compile(r"(?:^## (?P<title>.+?)$.*?)?^```python\n(?P<code>.*?)^```$", re.DOTALL | re.MULTILINE)
_BLOCKS = [(found["title"], found["code"]) for found in _BLOCK.finditer(_PAGE.read_text("utf-8"))]
_BEGINNING = _BLOCKS[0][1].partition("\n\ndef outcome(")[0]
RECIPES = {
    title: f"from __future__ import annotations\n\n{_BEGINNING}\nfrom tests.spark.recipes import outcome\n\n{code}"
    for title, code in _BLOCKS[1:]
}
"""Title → the recipe as a module that says what it feeds its topology, and what is to come out: see Outcome."""

Record = tuple[str, str | None, Any, float]


class Outcome:
    """What a recipe says of its topology; comparing it takes down what is expected.

    Attributes:
        records: topic, key, value and second of each.
        key: serde of the topic `out`.
        chosen: what of the result is looked at.
        expected: that.
    """

    told: list[Outcome] = []

    def __init__(
        self, builder: StreamsBuilder, records: list[Record], key: Serde[Any], chosen: Callable[[Any], Any]
    ) -> None:
        self.builder = builder
        self.records = records
        self.key = key
        self.chosen = chosen
        self.expected: Any = None

    def __getitem__(self, position: int) -> Outcome:
        return Outcome(self.builder, self.records, self.key, lambda rows: rows[position])

    def __eq__(self, other: object) -> bool:
        self.expected = other
        Outcome.told.append(self)
        return True

    __hash__ = None  # type: ignore[assignment]


def outcome(builder: StreamsBuilder, records: list[Record], key: Serde[Any] | None = None) -> Outcome:
    """In place of the cookbook's own, which feeds the test driver."""
    return Outcome(builder, records, key or Serdes.string(), lambda rows: rows)
