"""The README's chart of throughput, drawn from `bench/results`: `python -m bench chart`."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple
from xml.sax.saxutils import escape

RESULTS = Path(__file__).parent / "results" / "20261122.jsonl"
CHART = Path(__file__).parent.parent / "docs" / "images" / "throughput.svg"
COLOURS = {
    "Hayase": "#2563eb",
    "Kafka Streams": "#64748b",
    "Structured Streaming": "#e08a3c",
    "Quix Streams": "#7c9885",
}
EXACTLY_ONCE = ("count_by_key", "rekey_count", "stream_table_join", "tumbling", "hopping", "python_callables")
AT_LEAST_ONCE = ("filter", "count_by_key")
_LABEL_X, _BAR_X, _BAR_WIDTH, _ROW = 170, 180, 430, 15


class Bar(NamedTuple):
    """One system's records per second in a scenario."""

    scenario: str
    guarantee: str
    system: str
    records_per_s: int


def bars(lines: Iterable[str]) -> list[Bar]:
    """What was measured."""
    return [Bar(**json.loads(line)) for line in lines]


def drawn(found: list[Bar]) -> str:
    """The chart as SVG: exactly-once beside Kafka Streams, then at-least-once beside the other systems."""
    parts: list[str] = []
    y = 30
    largest = max(bar.records_per_s for bar in found)
    for title, guarantee, scenarios in (
        ("Exactly once, records/s", "exactly_once_v2", EXACTLY_ONCE),
        ("At least once, records/s", "at_least_once", AT_LEAST_ONCE),
    ):
        parts.append(_text(10, y, title, weight="bold"))
        y += 12
        for scenario in scenarios:
            group = [bar for bar in found if (bar.scenario, bar.guarantee) == (scenario, guarantee)]
            parts.append(_text(_LABEL_X, y + 11 + (len(group) - 1) * _ROW // 2, scenario, anchor="end"))
            for bar in group:
                width = max(1, round(_BAR_WIDTH * bar.records_per_s / largest))
                parts.append(
                    f'<rect x="{_BAR_X}" y="{y}" width="{width}" height="{_ROW - 3}" fill="{COLOURS[bar.system]}"/>'
                )
                parts.append(_text(_BAR_X + width + 6, y + 10, f"{bar.records_per_s:,}  {bar.system}", size=10))
                y += _ROW
            y += 7
        y += 18
    height = y
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 780 {height}" font-family="sans-serif" font-size="12">'
    )
    return "\n".join([head, f'<rect width="780" height="{height}" fill="white"/>', *parts, "</svg>", ""])


def _text(x: int, y: int, text: str, *, anchor: str = "start", weight: str = "normal", size: int = 12) -> str:
    style = f'text-anchor="{anchor}" font-weight="{weight}" font-size="{size}" fill="#1f2937"'
    return f'<text x="{x}" y="{y}" {style}>{escape(text)}</text>'


def write() -> None:
    """Draw it again."""
    CHART.parent.mkdir(exist_ok=True)
    CHART.write_text(drawn(bars(RESULTS.read_text().splitlines())))
