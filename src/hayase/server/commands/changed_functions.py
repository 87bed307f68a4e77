"""Queries whose functions are others than those that they were made with: after a restart they do not just go on."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from hayase.server.commands.records import Command, Record
from hayase.sql.errors import StatementError
from hayase.sql.functions.function_digests import function_digest
from hayase.sql.functions.registry import FunctionRegistry
from hayase.sql.functions.uses import FunctionUse, stand_in
from hayase.sql.statements.functions import PYTHON_ENABLED

Uses = Sequence[FunctionUse]
_LOG = logging.getLogger("hayase.server.commands")


@dataclass(frozen=True)
class Held:
    """A query that does not run.

    Attributes:
        problem: what has changed, and what to do.
        now: its functions as they are now, with which RESUME lets it go on; `None`: it cannot, their types do not fit.
    """

    problem: str
    now: Uses | None


def uses_that_count(records: Iterable[Record]) -> dict[int, Uses]:
    """The functions that each command's query has to have, by the command's sequence.

    They are those of the command, or of the last RESUME that has let its query go on with others.
    """
    counting: dict[int, Uses] = {}
    made_by: dict[str, int] = {}
    for record in records:
        if not isinstance(record, Command):
            continue
        made_by.update(dict.fromkeys(record.plans, record.sequence))
        for query_id, uses in record.functions.items():
            if query_id in made_by:
                counting[made_by[query_id]] = uses
    return counting


def with_stand_ins(functions: FunctionRegistry, uses: Uses) -> FunctionRegistry | None:
    """A registry in which what a statement calls has the types that it had; `None`: all is as it was."""
    changed = {use.name for use in uses if _now(functions, use) != use.digest}
    for name in sorted(changed):
        functions = functions.replaced(name, *(stand_in(use) for use in uses if use.name == name))
    return functions if changed else None


def held_query(query_id: str, before: Uses, functions: FunctionRegistry, uses_now: Callable[[], Uses]) -> Held:
    """A query of which some functions have changed.

    Args:
        query_id: of the query.
        before: the functions that it has to have.
        functions: all, as they are now.
        uses_now: plans its statement with these.
    """
    try:
        now: Uses | None = uses_now()
    except Exception:  # of the analysis, or of the Python of a user's aggregate
        now = None
    if now is not None and _types(now) != _types(before):
        now = None
    what = "; ".join(_difference(functions, use) for use in before if _now(functions, use) != use.digest)
    as_it_was = (
        "start the server with the functions as they were (--functions; for those of CREATE FUNCTION "
        f"{PYTHON_ENABLED}=true)"
    )
    if now is None:
        todo = f"S{as_it_was[1:]}; or drop the query and make it again"
    else:
        todo = f"RESUME {query_id}; lets it go on with its state and the functions as they are now. Or {as_it_was}"
    problem = f"the functions of query {query_id} are not those that it was made with: {what}. {todo}"
    _LOG.error("%s", problem)
    return Held(problem, now)


def _types(uses: Uses) -> list[FunctionUse]:
    return [replace(use, digest="") for use in uses]


def _now(functions: FunctionRegistry, use: FunctionUse) -> str | None:
    """The digest of the function that has the name and signature of another one; `None`: there is none."""
    if functions.kind(use.name) is None:
        return None
    overloads = functions.overloads(use.name)
    return next((function_digest(each) for each in overloads if each.text == use.signature), None)


def _difference(functions: FunctionRegistry, use: FunctionUse) -> str:
    if functions.kind(use.name) is None:
        return f"{use.name}{use.signature} is not there any more"
    if _now(functions, use) is None:
        others = ", ".join(each.text for each in functions.overloads(use.name))
        return f"{use.name}{use.signature} has another signature: {others}"
    return f"the Python of {use.name}{use.signature} has changed"


def resumed(held: Mapping[str, Held], query_ids: Sequence[str]) -> dict[str, list[FunctionUse]]:
    """The functions with which RESUME lets queries go on that are held; raises StatementError where they do not fit."""
    found: dict[str, list[FunctionUse]] = {}
    for query_id in query_ids:
        if query_id in held:
            now = held[query_id].now
            if now is None:
                raise StatementError("FUNCTION_CHANGED", held[query_id].problem)
            found[query_id] = list(now)
    return found
