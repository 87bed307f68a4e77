"""Functions whose Python stands in a statement: CREATE FUNCTION … LANGUAGE PYTHON AS '…'."""

from __future__ import annotations

import ast
import builtins
import keyword
import symtable
from collections.abc import Callable, Sequence
from typing import Any

from hayase.sql.errors import StatementError
from hayase.sql.functions.declarations import Declaration, FunctionKind
from hayase.sql.functions.python_text import compiled, source_of
from hayase.sql.functions.results import checked
from hayase.sql.functions.signatures import parse_signature
from hayase.sql.types import sql_types as sql

PythonCall = Callable[["PythonFunction", Sequence[Any]], Any]
"""Makes a call of a function; raises FunctionError."""


class PythonFunction:
    """A function made of its source text; pickled as that text, and compiled where it is called.

    Args:
        name: of the function.
        parameters: names in Python.
        returns: type of its results, which are checked.
        body: an expression, or the statements of a function.
        calls: makes the calls, in another process; `None`, and wherever it is pickled to: it is called here.
    """

    def __init__(
        self,
        name: str,
        parameters: tuple[str, ...],
        returns: sql.SqlType,
        body: str,
        calls: PythonCall | None = None,
    ) -> None:
        self.name = name
        self.parameters = parameters
        self.returns = returns
        self.body = body
        self._calls = calls
        self._function: Callable[..., Any] | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return PythonFunction, (self.name, self.parameters, self.returns, self.body)

    def __call__(self, *values: Any) -> Any:
        """The result for values; raises what the body raises, and FunctionError for a result of another type."""
        if self._calls is not None:
            return checked(self._calls(self, values), self.returns, self.name)
        if self._function is None:
            self._function = compiled(self.name, self.parameters, self.body)
        return checked(self._function(*values), self.returns, self.name)

    def check(self) -> None:
        """Compile it; raises StatementError `INVALID_FUNCTION`."""
        for parameter in self.parameters:
            if not parameter.isidentifier() or keyword.iskeyword(parameter):
                raise StatementError(
                    "INVALID_FUNCTION",
                    f"the parameter {parameter!r} of {self.name} is no name of Python: choose another",
                )
        if len(set(self.parameters)) != len(self.parameters):
            raise StatementError("INVALID_FUNCTION", f"two parameters of {self.name} have the same name in Python")
        try:
            compiled(self.name, self.parameters, self.body)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            line = error.lineno if isinstance(error, SyntaxError) else None
            where = "" if line is None else f" (line {line - 1} of the body)"
            raise StatementError(
                "INVALID_FUNCTION",
                f"the Python of {self.name} cannot be compiled: {error.args[0] if error.args else error}{where}. Give "
                "an expression, or the statements of a function with `return`",
            ) from error
        source = source_of(self.name, self.parameters, self.body)
        unknown = _undefined(source)
        if unknown:
            raise StatementError(
                "INVALID_FUNCTION",
                f"the Python of {self.name} uses {', '.join(unknown)}, which it does not define; its parameters are "
                f"{', '.join(self.parameters) or 'none'}, in lower case. Import what you need in the body",
            )
        if _returns_nothing(source):
            raise StatementError(
                "INVALID_FUNCTION", f"the Python of {self.name} returns nothing: give an expression, or use `return`"
            )


def _undefined(source: str) -> list[str]:
    """Names that the Python reads and nothing of it defines, in alphabetical order."""
    read: set[str] = set()
    written: set[str] = set()
    tables = [symtable.symtable(source, "<function>", "exec")]
    while tables:
        table = tables.pop()
        tables += table.get_children()
        for symbol in table.get_symbols():
            if symbol.is_global() and symbol.is_referenced():
                read.add(symbol.get_name())
            if symbol.is_assigned() and (symbol.is_global() or table.get_type() == "module"):
                written.add(symbol.get_name())
    return sorted(read - written - vars(builtins).keys())


_INNER = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
_ENDS = (ast.Raise, ast.Yield, ast.YieldFrom)


def _returns_nothing(source: str) -> bool:
    """Whether a function has no `return` with a value, and no other end that says something."""
    (function,) = ast.parse(source).body
    assert isinstance(function, ast.FunctionDef)
    nodes: list[ast.AST] = [*function.body]
    while nodes:
        node = nodes.pop()
        if isinstance(node, _ENDS) or (isinstance(node, ast.Return) and node.value is not None):
            return False
        if not isinstance(node, _INNER):
            nodes += ast.iter_child_nodes(node)
    return True


def python_declaration(
    name: str,
    parameters: Sequence[tuple[str, sql.SqlType]],
    returns: sql.SqlType,
    body: str,
    calls: PythonCall | None = None,
) -> Declaration:
    """A function of a statement, for the registry. Its parameters have their names in lower case in Python.

    Args:
        name: of the function.
        parameters: names and types.
        returns: type of its results.
        body: its Python.
        calls: see `PythonFunction`.

    Raises:
        StatementError: `INVALID_FUNCTION`.
    """
    function = PythonFunction(name, tuple(each.lower() for each, _ in parameters), returns, body, calls)
    function.check()
    text = f"({', '.join(str(type_) for _, type_ in parameters)}) -> {returns}"
    try:
        signature = parse_signature(text.replace("`", ""))
    except ValueError as error:
        raise StatementError("INVALID_FUNCTION", f"{name}: {error}") from error
    return Declaration(
        kind=FunctionKind.SCALAR,
        name=name,
        signature=signature,
        text=text,
        description="A function of a script, in Python.",
        target=function,
        pure=False,
    )
