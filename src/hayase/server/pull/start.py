"""Starting pull queries: analysis, what they read, the answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from random import Random
from typing import TYPE_CHECKING

from hayase.server.pull.row_limit import check_rows, rows_limited
from hayase.server.pull.stores import PinnedStore
from hayase.server.pull.stream import stream_values
from hayase.server.pull.table import Rows, TablePull
from hayase.server.pull.time_limit import limited
from hayase.server.push.shown import run_settings
from hayase.server.row_streams import ComputedRows, ReadyRows, in_rows_thread
from hayase.server.rows import LIMIT_REACHED, QUERY_COMPLETED, ResultColumn, RowBatch, RowHeader, RowStream
from hayase.server.services import QueryServices
from hayase.sql.analysis.access_path import KeyLookup
from hayase.sql.analysis.pull import MORE, STREAMS, USE_PUSH, PullPlan, analyze_pull
from hayase.sql.analysis.push import PushPlan
from hayase.sql.ast.queries import Query
from hayase.sql.engine import PersistentQuery
from hayase.sql.errors import StatementError
from hayase.sql.expressions.open_ended import may_take_seconds
from hayase.sql.plan.kept_table import kept_table
from hayase.sql.plan.push import TOMBSTONE, build_push_topology, rows_serde_of
from hayase.sql.settings import is_on

if TYPE_CHECKING:  # a server answers its first requests without it
    from hayase.topology.topology import Topology

_ID_BITS = 63
_IDS = Random()
"""Nothing can be done with the id of a pull query, so it may be guessed; secret numbers take a call of the system."""
_ADHOC_STARTS = ThreadPoolExecutor(4, "hayase-adhoc")
"""They wait for a process, and so have threads of their own."""
OnClose = Callable[[], None]
_Read = Callable[[PinnedStore], Iterable[Rows]]


async def start_pull(
    query: Query,
    services: QueryServices,
    settings: Mapping[str, object],
    on_close: OnClose,
    keep: Callable[[TablePull], None] = lambda pull: None,
    *,
    is_long: bool = False,
) -> RowStream:
    """The answer of a pull query.

    Args:
        query: as parsed.
        services: of the server.
        settings: of the statement.
        on_close: called once, when the answer is complete or its reader has gone.
        keep: gets the look-up that the query is, if it is one.
        is_long: its analysis keeps no other request waiting.

    Raises:
        StatementError: the query breaks a rule, or what it reads is not there.
    """
    engine = services.engine

    def analyzed() -> tuple[PullPlan, TablePull | None]:
        plan = analyze_pull(query, engine.catalog, engine.functions, settings)
        return plan, _table_pull(plan, services, settings) if plan.source.is_table else None

    if is_long or (query.where is not None and may_take_seconds(query.where)):  # a key may be computed
        plan, pull = await in_rows_thread(analyzed)
    else:
        plan, pull = analyzed()
    if pull is None:
        return await _start_stream(plan, services, settings, on_close)
    if plan.path.lookups is not None:
        if pull.may_wait:
            return await _answer_keys(pull, services, on_close)
        keep(pull)
        if len(plan.path.lookups) == 1 and not pull.kept.is_windowed:
            return _answer_key(pull, services, on_close, pull.batches)
        return await _answer_keys(pull, services, on_close)
    pinned = await asyncio.to_thread(services.stores.open_store, pull.query_id, pull.kept.store.name)

    def ended() -> None:
        pinned.close()
        on_close()

    batches = _bounded((RowBatch(rows) for rows in pull.batches(pinned)), services)
    return ComputedRows(_header(pull, pinned.epoch), batches, ended)


async def start_adhoc(
    text: str, services: QueryServices, settings: Mapping[str, object], on_close: OnClose
) -> RowStream:
    """The answer of a query that only ad-hoc SQL can have.

    Args:
        text: of the query.
        services: of the server.
        settings: of the statement.
        on_close: called once, when the answer is complete or its reader has gone.

    Raises:
        ParseFailedError: it is no SQL.
        StatementError: it breaks a rule, or a table cannot be read.
    """
    from hayase.server.pull.adhoc import AdHocRun  # duckdb is slow to import
    from hayase.server.pull.adhoc_sql import read_adhoc

    def make_pull(plan: PullPlan) -> TablePull:
        return _table_pull(plan, services, settings)

    run = await in_rows_thread(lambda: AdHocRun(read_adhoc(text), services, make_pull), _ADHOC_STARTS)

    def ended() -> None:
        run.close()
        on_close()

    return ComputedRows(run.header, rows_limited(run.batches(), services.settings.pull_max_rows), ended)


def answer_key(pull: TablePull, lookup: KeyLookup, services: QueryServices, on_close: OnClose) -> RowStream:
    """The rows of one key, by an analysis that was made for another one.

    Raises:
        StatementError: the query that makes the table does not run yet.
    """
    return _answer_key(pull, services, on_close, lambda pinned: [pull.rows_of_key(lookup, pinned)])


def _answer_key(pull: TablePull, services: QueryServices, on_close: OnClose, read: _Read) -> RowStream:
    """The rows of one key, read here: that is cheaper than a thread, and nothing is waited for."""
    with closing(services.stores.open_for_key(pull.query_id, pull.kept.store.name)) as store:
        batches = [RowBatch(rows) for rows in read(store)]
        check_rows(batches, services.settings.pull_max_rows)
        answer = ReadyRows(_header(pull, store.epoch), batches)
    on_close()
    return answer


async def _answer_keys(pull: TablePull, services: QueryServices, on_close: OnClose) -> RowStream:
    """The rows of a few keys, of one epoch, which a thread may have to wait for."""

    def answer() -> RowStream:
        with closing(services.stores.open_store(pull.query_id, pull.kept.store.name)) as pinned:
            batches = _bounded((RowBatch(rows) for rows in pull.batches(pinned)), services)
            return ReadyRows(_header(pull, pinned.epoch), batches)

    answered = await in_rows_thread(answer)
    on_close()
    return answered


def _bounded(batches: Generator[RowBatch, None, None], services: QueryServices) -> Iterator[RowBatch]:
    """Batches within the limits of time and rows of pull queries."""
    return rows_limited(limited(batches, services.settings.pull_timeout_ms), services.settings.pull_max_rows)


def _table_pull(plan: PullPlan, services: QueryServices, settings: Mapping[str, object]) -> TablePull:
    engine, name = services.engine, plan.source.name
    query_id = engine.catalog.own_query(name)
    query = engine.queries.get(query_id or "")
    if query is None and plan.source.is_source:
        query = next((each for each in engine.queries.values() if _keeps(each, name, services)), None)
    kept = None if query is None else kept_table(query.topology, query.plan, plan.source)
    if query is None or kept is None:
        raise StatementError(
            "NOT_QUERYABLE",
            f"The `{name}` table isn't queryable. To derive a queryable table, you can do 'CREATE TABLE "
            f"QUERYABLE_{name} AS SELECT * FROM {name}'.{MORE}{USE_PUSH}",
        )
    return TablePull.of(plan, query.id, kept, engine.functions, settings)


def _keeps(query: PersistentQuery, source: str, services: QueryServices) -> bool:
    """Whether a query only keeps the rows of a CREATE SOURCE TABLE."""
    links = services.engine.catalog.queries.get(query.id)
    return links is not None and links.writes is None and links.reads == (source,)


async def _start_stream(
    plan: PullPlan, services: QueryServices, settings: Mapping[str, object], on_close: OnClose
) -> RowStream:
    if not is_on(settings, STREAMS):
        raise StatementError(
            "PULL_DISABLED", f"Pull queries on streams are disabled. Set {STREAMS}=true to enable them.{USE_PUSH}"
        )
    push = PushPlan(plan.step, plan.items, plan.columns, (plan.source,), plan.limit)
    engine = services.engine
    tails = services.tails

    def built() -> Topology:
        tails.partitions([plan.source.topic])  # an error of the request, and not behind the head of its answer
        return build_push_topology(push, engine.functions, settings, services.registry)

    topology = await in_rows_thread(built)
    values = stream_values(topology, run_settings(settings), tails, lambda topic: len(tails.partitions([topic])))
    columns = tuple(ResultColumn(column.name, column.type, column.name in plan.key) for column in plan.columns)
    batches = _bounded(_stream_batches(push, values), services)
    return ComputedRows(RowHeader(_new_id(), columns), batches, on_close)


def _stream_batches(plan: PushPlan, found: Iterator[list[bytes]]) -> Generator[RowBatch, None, None]:
    read, left = rows_serde_of(plan).from_bytes, plan.limit
    if left != 0:
        for values in found:
            if left is not None:
                values = values[:left]
                left -= len(values)
            rows = [read(value) for value in values]
            yield RowBatch([[each for name, each in row.items() if name != TOMBSTONE] for row in rows])
            if left == 0:
                break
    yield RowBatch(final_message=LIMIT_REACHED if left == 0 else QUERY_COMPLETED)


def _header(pull: TablePull, epoch: int | None) -> RowHeader:
    return RowHeader(_new_id(), pull.columns, epoch, has_end=False)


def _new_id() -> str:
    return f"query_{_IDS.getrandbits(_ID_BITS)}"
