"""The rules of joins of sources with windowed keys."""

from __future__ import annotations

from hayase.sql.analysis.scopes import CANNOT, ScopeSource
from hayase.sql.analysis.steps import Rows
from hayase.sql.ast.expressions import ColumnRef, Expression
from hayase.sql.ast.queries import WindowKind
from hayase.sql.catalog.sources import WindowedKey
from hayase.sql.errors import StatementError
from hayase.sql.types.sql_types import quoted_name


def check_windowed(
    left: ScopeSource,
    right: ScopeSource,
    left_rows: Rows,
    right_rows: Rows,
    left_key: Expression,
    right_key: Expression,
) -> None:
    """Windowed sources are joined with sources of such windows, on their keys.

    Raises:
        StatementError: one side is windowed and the other is not, in another way, or would be partitioned again.
    """
    windows = left_rows.window, right_rows.window
    if windows == (None, None):
        return
    if None in windows:
        texts = [
            f"{quoted_name(source.source.name)} is {_text(window)}"
            for source, window in ((left, windows[0]), (right, windows[1]))
        ]
        raise StatementError(
            "INVALID_JOIN", f"{CANNOT} join windowed source to non-windowed source.\n" + "\n".join(texts)
        )
    kinds = [window.kind for window in windows if window is not None]
    if (kinds[0] is WindowKind.SESSION) != (kinds[1] is WindowKind.SESSION):
        raise StatementError(
            "INVALID_JOIN",
            f"Incompatible windowed sources.\nLeft source: {kinds[0].value}\nRight source: {kinds[1].value}\n"
            "Session windowed sources can only be joined to other session windowed sources, and may still not result "
            "in expected behaviour as session bounds must be an exact match for the join to work\n"
            "Hopping and tumbling windowed sources can only be joined to other hopping and tumbling windowed sources",
        )
    sizes = {window.size_ms for window in windows if window is not None}
    for rows, key in ((left_rows, left_key), (right_rows, right_key)):
        if len(sizes) > 1 or not (isinstance(key, ColumnRef) and rows.key == (key.name,)):
            raise StatementError(
                "INVALID_JOIN",
                "Implicit repartitioning of windowed sources is not supported. See "
                "https://github.com/confluentinc/ksql/issues/4385.",
            )


def _text(window: WindowedKey | None) -> str:
    return "not windowed" if window is None else f"{window.kind.value} windowed"
