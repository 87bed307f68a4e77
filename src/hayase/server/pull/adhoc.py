"""Ad-hoc SQL over the tables of the catalog: joins, aggregates, ORDER BY, sub-queries, by DuckDB."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Generator
from contextlib import closing, suppress
from typing import Any, TypeVar

import msgspec
import pyarrow as pa

from hayase.server.children.adhoc_worker import MEMORY_BYTES, as_stream
from hayase.server.children.pool import Child, ChildEndedError, ChildrenBusyError
from hayase.server.pull.adhoc_sql import AdHocQuery
from hayase.server.pull.adhoc_values import arrow_table, result_rows, sql_type
from hayase.server.pull.table import TablePull
from hayase.server.rows import ResultColumn, RowBatch, RowHeader
from hayase.server.services import QueryServices
from hayase.sql.analysis.access_path import AccessPath
from hayase.sql.analysis.pull import PullPlan
from hayase.sql.analysis.steps import ReadSource, Rows
from hayase.sql.ast.expressions import ColumnRef
from hayase.sql.catalog.catalog import require_source
from hayase.sql.catalog.sources import ROWTIME, WINDOW_BOUNDS, DataSource
from hayase.sql.errors import StatementError
from hayase.sql.formats.columns import Column
from hayase.sql.functions.work_limit import is_over, work_limited
from hayase.sql.types.sql_types import BIGINT, SqlType

TIMEOUT_S = 30.0
_END_S = 5.0
_ID_BITS = 63
T = TypeVar("T")

MakePull = Callable[[PullPlan], TablePull]
"""Compiles a pull query of a table; raises StatementError where the table cannot be queried."""


class AdHocRun:
    """One ad-hoc query: its tables are read, then DuckDB computes the answer, as it is taken, in a child process.

    Args:
        query: checked.
        services: of the server.
        make_pull: see MakePull.
        timeout_s: how long reading and computing may take; the process is ended then.

    Raises:
        StatementError: a table is not there, cannot be queried, or is too large; DuckDB refuses the query.
    """

    def __init__(
        self,
        query: AdHocQuery,
        services: QueryServices,
        make_pull: MakePull,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        self._timeout_s = timeout_s
        self._until_s = time.monotonic() + timeout_s
        self._children = services.adhoc_children
        self._child: Child | None = self._tried(lambda: self._children.take(timeout_s))
        try:
            with work_limited(timeout_s):
                for name in query.tables:
                    self._send_table(name, query, services, make_pull)
            data = self._asked("query", query.text)
        except BaseException:
            self.close()
            raise
        columns = []
        self._converters = []
        for field in pa.ipc.open_stream(data).schema:
            type_, convert = sql_type(field.type)
            columns.append(ResultColumn(field.name, type_))
            self._converters.append(convert)
        self.header = RowHeader(f"query_{secrets.randbits(_ID_BITS)}", tuple(columns), has_end=False)

    def batches(self) -> Generator[RowBatch, None, None]:
        """The rows of the answer."""
        while (data := self._asked("next")) is not None:
            for batch in pa.ipc.open_stream(data):
                yield RowBatch(result_rows(batch, self._converters))

    def close(self) -> None:
        """Let go of everything; calling it again does nothing."""
        if self._child is None:
            return
        with suppress(StatementError):
            self._asked("end", timeout_s=_END_S)
        child, self._child = self._child, None
        if child is not None:
            self._children.give_back(child)

    def _asked(self, *request: object, timeout_s: float | None = None) -> Any:
        """What the process answers; its errors are those of the statement."""
        child = self._child
        if child is None:
            raise StatementError("ADHOC_FAILED", "the query has ended")
        left_s = max(self._until_s - time.monotonic(), 0.001) if timeout_s is None else timeout_s
        message = msgspec.msgpack.encode(request)
        done, answer = self._tried(lambda: self._children.asked(child, message, msgspec.msgpack.decode, left_s))
        if not done:
            raise StatementError("ADHOC_FAILED", str(answer))
        return answer

    def _tried(self, ask: Callable[[], T]) -> T:
        try:
            return ask()
        except TimeoutError as error:
            self._child = None
            raise StatementError("ADHOC_FAILED", self._too_long()) from error
        except ChildrenBusyError as error:
            raise StatementError(
                "RATE_LIMIT", "Too many ad-hoc queries are at work. Try again later, or make a table of it"
            ) from error
        except ChildEndedError as error:
            self._child = None
            raise StatementError(
                "ADHOC_FAILED", f"the query has ended its process: it needs too much memory, or {error}"
            ) from error

    def _too_long(self) -> str:
        return f"the query took longer than {self._timeout_s:g} s: read less, or make a table of it"

    def _send_table(self, name: str, query: AdHocQuery, services: QueryServices, make_pull: MakePull) -> None:
        """Have the process have all rows of a table."""
        source = require_source(services.engine.catalog, name)
        if not source.is_table:
            raise StatementError("NOT_QUERYABLE", f"{name} is a stream: ad-hoc SQL reads tables")
        columns = _columns(source, with_rowtime=query.uses_rowtime)
        pull = make_pull(_everything(source, columns))
        empty = arrow_table(columns, [])
        self._asked("table", name, as_stream(empty.schema, empty.to_batches()))
        size_bytes = 0
        with closing(services.stores.open_store(pull.query_id, pull.kept.store.name, query.as_of)) as pinned:
            for rows in pull.batches(pinned):
                table = arrow_table(columns, rows)
                size_bytes += table.nbytes
                if is_over():
                    break
                if size_bytes > MEMORY_BYTES:
                    raise StatementError(
                        "TOO_LARGE",
                        f"table {name} has more than {MEMORY_BYTES >> 20} MB, which is what ad-hoc SQL can read: make "
                        "a smaller table of it with CREATE TABLE … AS SELECT",
                    )
                self._asked("table", name, as_stream(table.schema, table.to_batches()))
        if is_over():  # rows are missing
            raise StatementError("ADHOC_FAILED", self._too_long())


def _columns(source: DataSource, *, with_rowtime: bool) -> list[tuple[str, SqlType]]:
    key = [(column.name, column.type) for column in source.key]
    bounds = list(WINDOW_BOUNDS.items()) if source.window is not None else []
    value = [(column.name, column.type) for column in source.value]
    return [*key, *bounds, *value, *([(ROWTIME, BIGINT)] if with_rowtime else [])]


def _everything(source: DataSource, columns: list[tuple[str, SqlType]]) -> PullPlan:
    """The plan that reads all rows of a table."""
    given = {**source.columns, **source.pseudo_columns}
    rows = Rows(given, tuple(column.name for column in source.key), source.is_table, source.window)
    step = ReadSource(rows, source, {name: name for name in given})
    return PullPlan(
        source,
        step,
        None,
        tuple((name, ColumnRef(name)) for name, _ in columns),
        tuple(Column(name, type_) for name, type_ in columns),
        frozenset(),
        AccessPath(),
        None,
    )
