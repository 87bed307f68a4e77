"""SELECT statements: which kind of query one is, and its answer."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from hayase.server.limits import PullLimits
from hayase.server.pull.start import start_pull
from hayase.server.push.query import PushRows, ShownTopology, begins_at, run_settings
from hayase.server.push.running import PushQueries
from hayase.server.rows import RowStream
from hayase.server.services import QueryServices
from hayase.sql.analysis.planner_settings import is_true
from hayase.sql.analysis.push import PushPlan, analyze_push
from hayase.sql.analysis.steps import Filter, ReadSource, Step
from hayase.sql.ast.queries import Query
from hayase.sql.ast.statements import SelectQuery
from hayase.sql.errors import SqlError, StatementError
from hayase.sql.grammar.parser import ParsedStatement

_SCALABLE, _TRANSIENT = "SCALABLE_PUSH_QUERY", "transient"
PUSH_V2 = "ksql.query.push.v2.enabled"


async def start_query(
    parsed: ParsedStatement,
    services: QueryServices,
    running: PushQueries,
    limits: PullLimits,
    overrides: Mapping[str, object],
) -> RowStream:
    """Start the query of a SELECT statement.

    Args:
        parsed: the statement.
        services: of the server.
        running: the push queries of the server.
        limits: of pull queries.
        overrides: settings of the request.

    Raises:
        StatementError: the statement is no SELECT, breaks a rule, or there are too many queries.
    """
    statement = parsed.statement
    if not isinstance(statement, SelectQuery):
        raise StatementError(
            "NOT_A_QUERY",
            f"{parsed.text.split(maxsplit=1)[0].upper()} … is no query: send it to /ksql",
            statement=parsed.text,
        )
    settings = services.statement_settings(overrides)
    try:
        if statement.query.emit is not None:
            return await asyncio.to_thread(
                _start_push, statement.query, services, running, settings, asyncio.get_running_loop()
            )
        release = limits.enter()
        try:
            return await start_pull(statement.query, services, settings, release)
        except BaseException:
            release()
            raise
    except SqlError as error:
        if error.statement is None:
            error.statement = parsed.text
        raise


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
    return running.start(prefix, lambda query_id, ended: PushRows(query_id, shown, services.tails, run, loop, ended))


def _is_scalable(plan: PushPlan, services: QueryServices, settings: Mapping[str, object]) -> bool:
    """Whether ksqlDB would run a query by its version 2: a part of what one running query writes from now on."""
    writers = services.engine.catalog.writers(plan.sources[0].name)
    return (
        is_true(settings, PUSH_V2)
        and begins_at(settings) == "latest"
        and len(plan.sources) == 1
        and len(writers) == 1
        and _is_stateless(plan.step)
    )


def _is_stateless(step: Step) -> bool:
    return isinstance(step, ReadSource) or (isinstance(step, Filter) and _is_stateless(step.input))
