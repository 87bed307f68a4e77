"""SELECT statements: which kind of query one is, and its answer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import partial

from hayase.core.errors import UnknownTopicError
from hayase.server.limits import PullLimits
from hayase.server.pull.prepared import PreparedLookups, StatementShape
from hayase.server.pull.start import answer_key, start_adhoc, start_pull
from hayase.server.pull.table import TablePull
from hayase.server.push.query import PushRows
from hayase.server.push.running import PushQueries
from hayase.server.push.shareable import is_stateless
from hayase.server.push.shown import ShownTopology, begins_at, run_settings
from hayase.server.row_streams import in_rows_thread
from hayase.server.rows import RowStream
from hayase.server.services import QueryServices
from hayase.server.topics import topic_is_gone
from hayase.sql.analysis.pull import NOT_FOR_PULL
from hayase.sql.analysis.push import PushPlan, analyze_push
from hayase.sql.ast.location import Location
from hayase.sql.ast.queries import Query
from hayase.sql.ast.statements import SelectQuery
from hayase.sql.errors import ParseFailedError, SqlError, StatementError
from hayase.sql.grammar.parser import TOO_LONG, parse_statement
from hayase.sql.grammar.variables import Variables
from hayase.sql.settings import is_on

_SCALABLE, _TRANSIENT = "SCALABLE_PUSH_QUERY", "transient"
PUSH_V2 = "ksql.query.push.v2.enabled"
ADHOC = "hayase.query.pull.adhoc.enabled"
SUBSTITUTION = "ksql.variable.substitution.enable"
_SHORT = 2_000
"""Characters of a statement whose parsing and analysis take less than to have a thread do it."""


async def start_query(
    text: str,
    variables: Mapping[str, str],
    services: QueryServices,
    running: PushQueries,
    limits: PullLimits,
    prepared: PreparedLookups,
    overrides: Mapping[str, object],
) -> RowStream:
    """Start the query of a SELECT statement.

    A query without EMIT that ksqlDB's language or its pull queries do not have is ad-hoc SQL, if that is on.

    Args:
        text: the statement.
        variables: for `${name}`.
        services: of the server.
        running: the push queries of the server.
        limits: of pull queries.
        prepared: look-ups that were analyzed before.
        overrides: settings of the request.

    Raises:
        ParseFailedError: it is no statement.
        StatementError: the statement is no SELECT, breaks a rule, reads a topic that is gone, or there are too many
            queries.
    """
    shape = None if variables else StatementShape.of(text, overrides)
    if shape is not None and (found := prepared.find(shape, services)) is not None:
        release = limits.enter()
        try:
            return answer_key(*found, services, release)
        except BaseException:
            release()
            raise
    settings = services.statement_settings(overrides)

    def keep(pull: TablePull) -> None:
        if shape is not None:
            prepared.keep(shape, pull, services)

    begin: Location | None = None
    is_long = len(text) > _SHORT
    try:
        select = partial(_select, text, variables, settings)
        query = (await in_rows_thread(select) if is_long else select()).query
        begin = query.location
        if query.emit is not None:
            loop = asyncio.get_running_loop()
            return await asyncio.to_thread(_start_push, query, services, running, settings, loop)
        return await _limited(
            limits, lambda release: start_pull(query, services, settings, release, keep, is_long=is_long)
        )
    except UnknownTopicError as error:
        gone = topic_is_gone(error.context.get("topic"))
        gone.statement = text
        raise gone from error
    except SqlError as error:
        if _may_be_adhoc(error, text, settings):
            return await _start_adhoc(text, error, services, limits, settings)
        if error.statement is None:
            error.statement = text
        error.locate(begin)
        raise


def _select(text: str, variables: Mapping[str, str], settings: Mapping[str, object]) -> SelectQuery:
    parsed = parse_statement(text, Variables(dict(variables) if is_on(settings, SUBSTITUTION) else {}))
    if isinstance(parsed.statement, SelectQuery):
        return parsed.statement
    first = parsed.text.split(maxsplit=1)[0].upper()
    raise StatementError("NOT_A_QUERY", f"{first} … is no query: send it to /ksql", statement=parsed.text)


async def _limited(limits: PullLimits, start: Callable[[Callable[[], None]], Awaitable[RowStream]]) -> RowStream:
    """Start a pull query, if there may be one more."""
    release = limits.enter()
    try:
        return await start(release)
    except BaseException:
        release()
        raise


def _may_be_adhoc(error: SqlError, text: str, settings: Mapping[str, object]) -> bool:
    """Whether a query that was refused may still have an answer."""
    from hayase.server.pull.adhoc_sql import is_candidate  # duckdb is slow to import

    if not is_on(settings, ADHOC) or error.condition == TOO_LONG:
        return False
    return (isinstance(error, ParseFailedError) or error.condition == NOT_FOR_PULL) and is_candidate(text)


async def _start_adhoc(
    text: str, error: SqlError, services: QueryServices, limits: PullLimits, settings: Mapping[str, object]
) -> RowStream:
    try:
        return await _limited(limits, lambda release: start_adhoc(text, services, settings, release))
    except ParseFailedError:
        if error.statement is None:
            error.statement = text
        raise error from None


def _start_push(
    query: Query,
    services: QueryServices,
    running: PushQueries,
    settings: Mapping[str, object],
    loop: asyncio.AbstractEventLoop,
) -> RowStream:
    engine = services.engine
    plan = analyze_push(query, engine.catalog, engine.functions, settings)
    prefix = _SCALABLE if _is_scalable(plan, services, settings) else f"{_TRANSIENT}_{plan.sources[0].name}"
    shown = ShownTopology.of(plan, services, settings)
    run = run_settings(settings)
    return running.start(
        prefix,
        lambda query_id, ended: PushRows(query_id, shown, services.tails, run, loop, running, ended),
    )


def _is_scalable(plan: PushPlan, services: QueryServices, settings: Mapping[str, object]) -> bool:
    """Whether ksqlDB would run a query by its version 2: a part of what one running query writes from now on."""
    writers = services.engine.catalog.writers(plan.sources[0].name)
    return (
        is_on(settings, PUSH_V2)
        and begins_at(settings) == "latest"
        and len(plan.sources) == 1
        and len(writers) == 1
        and is_stateless(plan.step)
    )
