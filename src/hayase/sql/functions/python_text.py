"""The Python of a statement, compiled. Imports nothing: child processes that call it start with this module."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from functools import lru_cache
from typing import Any


def source_of(name: str, parameters: tuple[str, ...], body: str) -> str:
    """The definition of `function`, whose body is an expression or statements."""
    text = textwrap.dedent(body).strip("\n")
    try:
        compile(text.strip(), f"<function {name}>", "eval")
        text = f"return ({text.strip()}\n)"
    except SyntaxError:
        pass  # it is statements
    return f"def function({', '.join(parameters)}):\n{textwrap.indent(text, '    ')}\n"


@lru_cache(maxsize=256)
def compiled(name: str, parameters: tuple[str, ...], body: str) -> Callable[..., Any]:
    """The function of an expression, or of statements; raises SyntaxError and what else `compile` raises."""
    code = compile(source_of(name, parameters, body), f"<function {name}>", "exec")
    names: dict[str, Any] = {}
    exec(code, names)
    function: Callable[..., Any] = names["function"]
    function.__code__ = function.__code__.replace(co_name=name, co_firstlineno=0)
    return function
