"""Commands of the topic as statements again, at the start of a server."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from hayase.server.commands.changed_functions import Held, Uses, held_query, with_stand_ins
from hayase.server.commands.records import Command
from hayase.server.topics import ReplayedTopics
from hayase.sql.ast.statements import CreateFunction, DropFunction, QueryAction, QueryControl
from hayase.sql.catalog.inferred import InferredColumns
from hayase.sql.engine import PreparedStatement, SqlEngine
from hayase.sql.errors import StatementError
from hayase.sql.functions.registry import FunctionRegistry
from hayase.sql.grammar.parser import parse_statement

_LOG = logging.getLogger("hayase.server.commands")


def replayed(engine: SqlEngine, command: Command, uses: Uses) -> tuple[PreparedStatement, Mapping[str, Held]]:
    """The statement of a command, and its query if that must not run; no registry and no topic is asked.

    Where functions that the query calls have changed, it is held; where their types have, others stand for them.

    Args:
        engine: with the commands before it.
        command: to be replayed.
        uses: the functions that its query has to have.

    Raises:
        StatementError: it cannot be executed any more.
    """
    parsed = parse_statement(command.statement)
    statement = parsed.statement
    if isinstance(statement, QueryControl):
        stops = command.queries if statement.action is QueryAction.TERMINATE else []
        return engine.prepare_stop(parsed, stops), {}

    def prepare(functions: FunctionRegistry | None) -> PreparedStatement:
        topics = ReplayedTopics({name: (seen.partitions, seen.replicas) for name, seen in command.topics.items()})
        return engine.prepare(
            parsed,
            command.settings,
            topics=topics,
            inferred=InferredColumns(command.columns),
            is_replayed=True,
            first_number=command.first_number,
            functions=functions,
        )

    def uses_now() -> Uses:
        return prepare(None).execution.calls.uses()

    if isinstance(statement, CreateFunction | DropFunction):
        try:
            return prepare(None), {}
        except StatementError as error:  # what calls it is held
            _LOG.warning("%s is not replayed: %s", command.id, error.message)
            return engine.prepare_stop(parsed, ()), {}
    functions = with_stand_ins(engine.functions, uses)
    if functions is None:
        return prepare(None), {}
    held = {query_id: held_query(query_id, uses, engine.functions, uses_now) for query_id in command.plans}
    return prepare(functions if any(each.now is None for each in held.values()) else None), held
