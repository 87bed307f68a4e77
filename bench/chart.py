"""The README's chart of throughput, drawn from `bench/results`: `python -m bench chart`."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple
from xml.sax.saxutils import escape

RESULTS = Path(__file__).parent / "results" / "20261122.jsonl"
CHART = Path(__file__).parent.parent / "docs" / "images" / "throughput.svg"
GUARANTEE = "exactly_once_v2"
TITLE = "Records per second with exactly_once_v2 on both sides, from Kafka to Kafka"
COLOURS = {"Hayase": "#2563eb", "Kafka Streams": "#64748b"}
SCENARIOS = ("filter", "count_by_key", "rekey_count", "stream_table_join", "tumbling", "hopping", "python_callables")
_LABEL_X, _BAR_X, _BAR_WIDTH, _ROW = 170, 180, 430, 15


class Bar(NamedTuple):
    """One system's records per second in a scenario."""

    scenario: str
    guarantee: str
    system: str
    records_per_s: int


def bars(lines: Iterable[str]) -> list[Bar]:
    """The measured bars of the chart: of its guarantee alone, so that all of them compare with each other."""
    return [bar for bar in (Bar(**json.loads(line)) for line in lines) if bar.guarantee == GUARANTEE]


def drawn(measured: list[Bar]) -> str:
    """The chart as SVG: a group of bars for each scenario, under a title that names the guarantee."""
    shown = [(scenario, [bar for bar in measured if bar.scenario == scenario]) for scenario in SCENARIOS]
    largest = max(bar.records_per_s for _, group in shown for bar in group)
    parts = [_text(10, 30, TITLE, weight="bold")]
    y = 42
    for scenario, group in shown:
        parts.append(_text(_LABEL_X, y + 11 + (len(group) - 1) * _ROW // 2, scenario, anchor="end"))
        for bar in group:
            width = max(1, round(_BAR_WIDTH * bar.records_per_s / largest))
            parts.append(
                f'<rect x="{_BAR_X}" y="{y}" width="{width}" height="{_ROW - 3}" fill="{COLOURS[bar.system]}"/>'
            )
            parts.append(_text(_BAR_X + width + 6, y + 10, f"{bar.records_per_s:,}  {bar.system}", size=10))
            y += _ROW
        y += 7
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 780 {y}" font-family="sans-serif" font-size="12">'
    return "\n".join([head, f'<rect width="780" height="{y}" fill="white"/>', *parts, "</svg>", ""])


def _text(x: int, y: int, text: str, *, anchor: str = "start", weight: str = "normal", size: int = 12) -> str:
    style = f'text-anchor="{anchor}" font-weight="{weight}" font-size="{size}" fill="#1f2937"'
    return f'<text x="{x}" y="{y}" {style}>{escape(text)}</text>'


def write() -> None:
    """Draw it again."""
    CHART.parent.mkdir(exist_ok=True)
    CHART.write_text(drawn(bars(RESULTS.read_text().splitlines())))
