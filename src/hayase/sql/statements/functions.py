"""CREATE FUNCTION and DROP FUNCTION: functions in Python, which stand in the script."""

from __future__ import annotations

from hayase.sql.ast.statements import CreateFunction, DropFunction
from hayase.sql.errors import StatementError
from hayase.sql.functions.python_source import PythonFunction, python_declaration
from hayase.sql.statements.execution import Execution
from hayase.sql.statements.results import StatementResult

PYTHON_ENABLED = "ksql.udfs.python.enabled"


def create_function(statement: CreateFunction, execution: Execution) -> StatementResult:
    """Add a function. Queries that were made with one of its name keep that one.

    Raises:
        StatementError: scripts are not trusted, the name is taken, or the Python is none.
    """
    if not execution.trusts_scripts:
        raise StatementError(
            "NOT_ENABLED",
            "CREATE FUNCTION … LANGUAGE PYTHON runs what the statement says with the rights of the process: that is "
            f"off. To trust all who write statements, start with the setting {PYTHON_ENABLED}=true",
        )
    name = statement.name
    if execution.functions.kind(name) is not None:
        if not _is_of_script(name, execution):
            raise StatementError(
                "FUNCTION_EXISTS", f"{name} is a function of ksqlDB or of a module; choose another name"
            )
        if not statement.or_replace:
            message = f"Function {name} already exists."
            if statement.if_not_exists:
                return StatementResult(message)
            raise StatementError("FUNCTION_EXISTS", f"{message} To replace it, use CREATE OR REPLACE FUNCTION")
    resolve = execution.catalog.resolve_type
    parameters = [(each, resolve(type_)) for each, type_ in statement.parameters]
    calls = execution.functions.python_calls
    declaration = python_declaration(name, parameters, resolve(statement.returns), statement.body, calls)
    execution.functions = execution.functions.replaced(name, declaration)
    return StatementResult(f"Created function {name}{declaration.text}")


def drop_function(statement: DropFunction, execution: Execution) -> StatementResult:
    """Forget a function of a script; queries that were made with it keep it.

    Raises:
        StatementError: there is none.
    """
    name = statement.name
    if not _is_of_script(name, execution):
        if statement.if_exists and execution.functions.kind(name) is None:
            return StatementResult(f"Function {name} does not exist.")
        raise StatementError("UNKNOWN_FUNCTION", f"{name} is no function that CREATE FUNCTION has made")
    execution.functions = execution.functions.replaced(name)
    return StatementResult(f"Dropped function {name}")


def _is_of_script(name: str, execution: Execution) -> bool:
    if execution.functions.kind(name) is None:
        return False
    return any(isinstance(each.target, PythonFunction) for each in execution.functions.overloads(name))
