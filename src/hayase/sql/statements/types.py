"""CREATE TYPE and DROP TYPE."""

from __future__ import annotations

from hayase.sql.ast.statements import CreateType, DropType
from hayase.sql.errors import StatementError
from hayase.sql.statements.execution import Execution
from hayase.sql.statements.results import StatementResult


def create_type(statement: CreateType, execution: Execution) -> StatementResult:
    """Give a type a name.

    Raises:
        StatementError: the name is taken.
    """
    types = execution.catalog.types
    resolved = execution.catalog.resolve_type(statement.type)
    existing = types.get(statement.name)
    if existing is not None:
        message = f"{statement.name} is already registered with type {existing}."
        if statement.if_not_exists:
            return StatementResult(message)
        raise StatementError("TYPE_EXISTS", f"Cannot register custom type '{statement.name}': {message}")
    types[statement.name] = resolved
    return StatementResult(f"Registered custom type with name '{statement.name}' and SQL type {resolved}")


def drop_type(statement: DropType, execution: Execution) -> StatementResult:
    """Forget the name of a type; what was declared with it keeps the type.

    Raises:
        StatementError: there is no such name.
    """
    if statement.name not in execution.catalog.types:
        message = f"Type '{statement.name}' does not exist"
        if statement.if_exists:
            return StatementResult(message)
        raise StatementError("UNKNOWN_TYPE", message)
    del execution.catalog.types[statement.name]
    return StatementResult(f"Dropped type '{statement.name}'")
