"""What the demo shows."""

from __future__ import annotations

from rich.console import Console

from hayase import ProgressReport, State
from hayase.cli.demo.display import Display, sales_table
from hayase.cli.progress import PlainProgress

HOUR_MS = 3_600_000
FIRST_MS = 1_767_571_200_000


def _row(hours: int, product: str, revenue: int) -> dict[str, object]:
    start = FIRST_MS + hours * HOUR_MS
    return {
        "product": product,
        "region": "South America",
        "window_start_ms": start,
        "orders": 1,
        "quantity": 2,
        "revenue": revenue,
        "timestamp_ms": start,
    }


def _report(consumed: int, state: State = State.RUNNING) -> ProgressReport:
    return ProgressReport(state, 1, 0, consumed, 0, 0, 0, 0, 0)


def test_the_table_holds_the_best_of_the_latest_windows_and_fits_80_columns() -> None:
    rows = [_row(0, "Old", 9), *(_row(6, f"Fjord Mug {n}", n * 100_000_000) for n in range(4)), _row(12, "New", 5)]
    console = Console(width=80)
    with console.capture() as captured:
        console.print(sales_table(rows, windows=2, top=2))
    text = captured.get()
    assert "Old" not in text
    assert text.index("New") < text.index("Fjord Mug 3") < text.index("Fjord Mug 2")
    assert "Fjord Mug 1" not in text
    assert "3,000,000.00" in text and "0.05" in text
    assert "…" not in text


def test_without_a_terminal_progress_is_plain_lines() -> None:
    console = Console(force_terminal=False, width=80)
    with console.capture() as captured, Display(console, 10) as display:
        display.tick(_report(10))
    assert captured.get() == "running: 10 records, 0 records/s, lag 0, late 0, dead letters 0\n"


def test_plain_progress_says_nothing_twice_and_not_too_often() -> None:
    now = [0.0]
    lines: list[str] = []
    progress = PlainProgress(lines.append, every_s=2.0, monotonic=lambda: now[0])
    for at, consumed in ((0.0, 0), (1.0, 5), (2.0, 10), (9.0, 10), (12.0, 10)):
        now[0] = at
        progress.tick(_report(consumed))
    assert [line.split(",")[0] for line in lines] == ["running: 0 records", "running: 10 records"]


def test_the_rate_is_over_the_last_seconds() -> None:
    now = [0.0]
    lines: list[str] = []
    progress = PlainProgress(lines.append, every_s=0.0, monotonic=lambda: now[0])
    for at, consumed in ((0.0, 0), (10.0, 100), (12.0, 500)):
        now[0] = at
        progress.tick(_report(consumed))
    assert "200 records/s" in lines[-1]
