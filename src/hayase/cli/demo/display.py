"""What the demo shows: progress while it works, then tables, then how the check went."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from rich import box
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table

from hayase.app.report import ProgressReport
from hayase.cli.demo.check import Report
from hayase.cli.progress import PlainProgress, ProgressLine

_PLAIN_EVERY_S = 2.0

SalesRow = Mapping[str, Any]


class Display:
    """Progress on a console: a live picture on a terminal, else a line every two seconds.

    Args:
        console: where to.
        total: records in the input; `None` if more keep coming.
        rows: called for the live table's rows; `None`: no table while it works.
    """

    def __init__(self, console: Console, total: int | None, rows: Callable[[], list[SalesRow]] | None = None) -> None:
        self._total = total
        self._rows = rows
        self._line = ProgressLine()
        self._plain = PlainProgress(
            lambda line: console.print(line, highlight=False, soft_wrap=True), every_s=_PLAIN_EVERY_S
        )
        self._bar = Progress(TextColumn("records"), BarColumn(), MofNCompleteColumn(), console=console)
        self._task = self._bar.add_task("records", total=total)
        self._live = Live(console=console, refresh_per_second=4, transient=True) if console.is_terminal else None

    def __enter__(self) -> Display:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def tick(self, report: ProgressReport) -> None:
        """Show where the application is now."""
        if self._live is None:
            self._plain.tick(report)
            return
        self._bar.update(self._task, completed=report.consumed, total=self._total)
        text = self._line.text(report)
        parts: list[RenderableType] = [self._bar, text] if self._total is not None else [text]
        if self._rows is not None and (rows := self._rows()):
            parts.append(sales_table(rows, windows=1, top=12))
        self._live.update(Group(*parts))


def sales_table(rows: Iterable[SalesRow], *, windows: int, top: int) -> Table:
    """The rows of the latest windows, in each those with the largest revenue."""
    by_window: dict[int, list[SalesRow]] = {}
    for row in rows:
        by_window.setdefault(row["window_start_ms"], []).append(row)
    table = Table(
        title="Sales per product and region, latest windows of 6 hours (UTC)",
        title_justify="left",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        collapse_padding=True,
    )
    for name in ("window", "product", "region"):
        table.add_column(name, no_wrap=True)
    for name in ("orders", "quantity", "revenue"):
        table.add_column(name, justify="right", no_wrap=True)
    for start in sorted(by_window, reverse=True)[:windows]:
        best = sorted(by_window[start], key=lambda row: (-row["revenue"], row["product"], row["region"]))[:top]
        for position, row in enumerate(best):
            table.add_row(
                window_text(start) if position == 0 else "",
                row["product"],
                row["region"],
                f"{row['orders']:,}",
                f"{row['quantity']:,}",
                money(row["revenue"]),
                end_section=position == len(best) - 1,
            )
    return table


def window_text(start_ms: int) -> str:
    """The start of a window as people read it.

    Example:
        >>> window_text(1_767_571_200_000)
        '2026-01-05 00:00'
    """
    return f"{datetime.fromtimestamp(start_ms / 1000, UTC):%Y-%m-%d %H:%M}"


def money(cents: int) -> str:
    """Cents as an amount.

    Example:
        >>> money(123_456_705)
        '1,234,567.05'
    """
    return f"{cents // 100:,}.{cents % 100:02d}"


def show_report(console: Console, report: Report) -> None:
    """How the comparison went; where results differ, the first rows that do."""
    if report.equal:
        enriched, sales, _, dead, _ = (comparison.rows for comparison in report.comparisons)
        console.print(
            "Compared with an independent batch computation (DuckDB over the same input): equal, to the record: "
            f"{sales:,} rows of sales in topic and store, {enriched:,} enriched orders "
            f"({report.unknown_products:,} of unknown products), {dead:,} dead letters, {report.late:,} late orders.",
            style="green",
            highlight=False,
            soft_wrap=True,
        )
        return
    console.print("NOT equal to an independent batch computation (DuckDB over the same input):", style="bold red")
    for each in report.comparisons:
        verdict = "equal" if each.equal else f"{each.missing:,} rows missing (-), {each.unexpected:,} unexpected (+)"
        console.print(f"{each.name}, {each.rows:,} rows: {verdict}", highlight=False, soft_wrap=True)
        for example in each.examples:
            console.print(f"  {example}", highlight=False, soft_wrap=True, markup=False)
