"""Functions whose Python stands in a statement: CREATE FUNCTION … LANGUAGE PYTHON AS '…'."""

from __future__ import annotations

import builtins
import dis
import keyword
from collections.abc import Callable, Sequence
from types import CodeType
from typing import Any

from hayase.sql.errors import StatementError
from hayase.sql.functions.declarations import Declaration, FunctionKind
from hayase.sql.functions.python_text import compiled
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
            function = compiled(self.name, self.parameters, self.body)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            line = error.lineno if isinstance(error, SyntaxError) else None
            where = "" if line is None else f" (line {line - 1} of the body)"
            raise StatementError(
                "INVALID_FUNCTION",
                f"the Python of {self.name} cannot be compiled: {error.args[0] if error.args else error}{where}. Give "
                "an expression, or the statements of a function with `return`",
            ) from error
        unknown = sorted(_globals_of(function.__code__) - vars(builtins).keys())
        if unknown:
            raise StatementError(
                "INVALID_FUNCTION",
                f"the Python of {self.name} uses {', '.join(unknown)}, which it does not define; its parameters are "
                f"{', '.join(self.parameters) or 'none'}, in lower case. Import what you need in the body",
            )
        if _returns_nothing(function.__code__):
            raise StatementError(
                "INVALID_FUNCTION", f"the Python of {self.name} returns nothing: give an expression, or use `return`"
            )


def _globals_of(code: CodeType) -> set[str]:
    """Names that code looks for outside of it, its inner functions included."""
    names = {each.argval for each in dis.get_instructions(code) if each.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
    inner = (each for each in code.co_consts if isinstance(each, CodeType))
    return names.union(*map(_globals_of, inner))


def _returns_nothing(code: CodeType) -> bool:
    """Whether every end of a function is one that gives None."""
    instructions = list(dis.get_instructions(code))
    ends = [at for at, each in enumerate(instructions) if each.opname.startswith("RETURN_VALUE")]
    return bool(ends) and all(
        instructions[at - 1].opname == "LOAD_CONST" and instructions[at - 1].argval is None for at in ends
    )


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
