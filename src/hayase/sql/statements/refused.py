"""Statements that are understood and cannot be executed here, each with the reason."""

from __future__ import annotations

from typing import Never

from hayase.sql.ast import statements as ast
from hayase.sql.errors import StatementError

_SERVER = "needs a server with queries that run; a script has none"
_CONNECT = "statements about connectors need `hayase server`; a script has none: see `hayase connectors`"
_REASONS: dict[type[ast.Statement], str] = {
    ast.AlterSystem: "ALTER SYSTEM is refused: SET counts for a script, the settings of the application for all",
    ast.SelectQuery: f"SELECT without CREATE … AS {_SERVER}",
    ast.PrintTopic: f"PRINT {_SERVER}",
    ast.QueryControl: f"TERMINATE, PAUSE and RESUME: that {_SERVER}",
    ast.CreateConnector: f"CREATE CONNECTOR: {_CONNECT}",
    ast.DropConnector: f"DROP CONNECTOR: {_CONNECT}",
    ast.DescribeConnector: f"DESCRIBE CONNECTOR: {_CONNECT}",
    ast.RunScript: "RUN SCRIPT: give the script to `hayase sql run` or `hayase sql test`",
    ast.AssertValues: "ASSERT VALUES is for `hayase sql test`",
    ast.AssertNullValues: "ASSERT NULL VALUES is for `hayase sql test`",
    ast.AssertSource: "ASSERT STREAM and ASSERT TABLE are for `hayase sql test`",
}


def refuse(statement: ast.Statement) -> Never:
    """Refuse a statement.

    Raises:
        StatementError: always, with the reason.
    """
    reason = _REASONS.get(type(statement), f"{type(statement).__name__} cannot be executed here")
    raise StatementError("NOT_EXECUTABLE", reason, location=statement.location)
