"""Requests for rows: the bodies of `/query` and `/query-stream`, and the statement in them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from hayase.server.context import ServerContext
from hayase.server.errors import BAD_JSON, BAD_REQUEST, RequestError
from hayase.server.rows import RowStream
from hayase.server.warm_up import planning_imported
from hayase.sql.ast.statements import PrintTopic
from hayase.sql.grammar.parser import parse_statement
from hayase.sql.grammar.variables import Variables

_SCALARS = (str, int, float, bool)


@dataclass(frozen=True)
class QueryRequest:
    """A request for the rows of one statement.

    Attributes:
        text: the statement.
        properties: settings for it.
        variables: for `${name}`.
    """

    text: str
    properties: Mapping[str, object]
    variables: Mapping[str, str]

    @classmethod
    def read(cls, body: bytes | str, text_name: str, properties_name: str) -> QueryRequest:
        """A request from JSON.

        Args:
            body: of the request.
            text_name: the member with the statement: `ksql` or `sql`.
            properties_name: the member with the settings.

        Raises:
            RequestError: it is no JSON object, or a member has another type.
        """
        try:
            given: Any = msgspec.json.decode(body)
        except BAD_JSON as error:
            raise _bad(f"the body is no JSON: {error}") from error
        if not isinstance(given, dict):
            raise _bad(f"the body is a {type(given).__name__}; send an object with the member {text_name!r}")
        text = given.get(text_name)
        if not isinstance(text, str):
            raise _bad(f"No {text_name} in arguments: send the statement as a text in the member {text_name!r}")
        properties = _members(given, properties_name, _SCALARS)
        variables = _members(given, "sessionVariables", (str,))
        return cls(text, properties, variables)

    def print_statement(self) -> PrintTopic | None:
        """The PRINT statement that is asked for; `None` if it is another one.

        Raises:
            ParseFailedError: it begins as one, and is none.
        """
        if not self.text.lstrip().upper().startswith("PRINT"):
            return None
        statement = parse_statement(self.text, Variables(dict(self.variables))).statement
        return statement if isinstance(statement, PrintTopic) else None


async def start_asked(asked: QueryRequest, context: ServerContext) -> RowStream:
    """Start the query of a request; raises as `start_query`."""
    await planning_imported()
    from hayase.server.queries import start_query  # slow to import, and not for the first answers

    return await start_query(
        asked.text,
        asked.variables,
        context,
        context.push_queries,
        context.pull_limits,
        context.prepared_lookups,
        asked.properties,
    )


def _members(given: Mapping[str, Any], name: str, types: tuple[type, ...]) -> dict[str, Any]:
    """The members of an object that may be left out."""
    members = given.get(name)
    if members is None:
        return {}
    if not isinstance(members, dict):
        raise _bad(f"{name} is a {type(members).__name__}; send an object")
    for member, value in members.items():
        if not isinstance(value, types):
            expected = " or ".join(each.__name__ for each in types)
            raise _bad(f"{member} in {name} is a {type(value).__name__}; send {expected}")
    return members


def _bad(message: str) -> RequestError:
    return RequestError(BAD_REQUEST, "BAD_REQUEST", message)
