"""Ad-hoc SQL over the tables of the catalog: joins, aggregates, ORDER BY, sub-queries, by DuckDB."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Generator
from contextlib import closing, suppress
from typing import Any

import duckdb
import pyarrow as pa

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

MEMORY_BYTES = 256 << 20
TIMEOUT_S = 30.0
BATCH_ROWS = 1_000
_ID_BITS = 63
_LOCKED = (
    "SET enable_external_access = false",
    "SET autoinstall_known_extensions = false",
    "SET autoload_known_extensions = false",
    "SET python_enable_replacements = false",
    "SET allow_community_extensions = false",
    "SET lock_configuration = true",
)

MakePull = Callable[[PullPlan], TablePull]
"""Compiles a pull query of a table; raises StatementError where the table cannot be queried."""


class AdHocRun:
    """One ad-hoc query: its tables are read, then DuckDB computes the answer as it is taken.

    Args:
        query: checked.
        services: of the server.
        make_pull: see MakePull.
        timeout_s: how long reading and computing may take.

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
        with work_limited(timeout_s):
            tables = {name: self._read(name, query, services, make_pull) for name in query.tables}
        self._connection = duckdb.connect(":memory:", config={"threads": 1})
        self._timer = threading.Timer(self._until_s - time.monotonic(), self._connection.interrupt)
        self._timer.daemon = True
        try:
            self._connection.execute(f"SET memory_limit = '{MEMORY_BYTES >> 20}MB'")
            for statement in _LOCKED:
                self._connection.execute(statement)
            for name, table in tables.items():
                self._connection.register(name, table)
            self._timer.start()
            self._reader = self._asked(lambda: self._connection.sql(query.text).to_arrow_reader(BATCH_ROWS))
        except BaseException:
            self.close()
            raise
        columns = []
        self._converters = []
        for field in self._reader.schema:
            type_, convert = sql_type(field.type)
            columns.append(ResultColumn(field.name, type_))
            self._converters.append(convert)
        self.header = RowHeader(f"query_{secrets.randbits(_ID_BITS)}", tuple(columns), has_end=False)

    def batches(self) -> Generator[RowBatch, None, None]:
        """The rows of the answer."""
        while (batch := self._asked(self._next)) is not None:
            yield RowBatch(result_rows(batch, self._converters))

    def close(self) -> None:
        """Let go of everything; calling it again does nothing."""
        self._timer.cancel()
        self._connection.close()

    def _next(self) -> pa.RecordBatch | None:
        with suppress(StopIteration):
            batch: pa.RecordBatch = self._reader.read_next_batch()
            return batch
        return None

    def _asked(self, ask: Callable[[], Any]) -> Any:
        """What DuckDB answers; its errors are those of the statement."""
        try:
            return ask()
        except (duckdb.Error, pa.ArrowException, OSError) as error:
            message = str(error)
            if "INTERRUPT" in message.upper():
                message = self._too_long()
            raise StatementError("ADHOC_FAILED", message) from error

    def _too_long(self) -> str:
        return f"the query took longer than {self._timeout_s:g} s: read less, or make a table of it"

    def _read(self, name: str, query: AdHocQuery, services: QueryServices, make_pull: MakePull) -> pa.Table:
        """All rows of a table."""
        source = require_source(services.engine.catalog, name)
        if not source.is_table:
            raise StatementError("NOT_QUERYABLE", f"{name} is a stream: ad-hoc SQL reads tables")
        columns = _columns(source, with_rowtime=query.uses_rowtime)
        pull = make_pull(_everything(source, columns))
        batches: list[pa.RecordBatch] = []
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
                batches += table.to_batches()
        if is_over():  # rows are missing
            raise StatementError("ADHOC_FAILED", self._too_long())
        return pa.Table.from_batches(batches) if batches else arrow_table(columns, [])


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
