"""Digests of functions: equal where the Python of a function, and what it uses of its own files, is the same.

What counts is the Python as a tree, so comments and layout do not. It is followed through the names that it uses, from
module to module, as far as these are the user's: not into Python's library, installed packages, or Hayase.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import sys
import sysconfig
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any

from hayase.sql.functions.declarations import Declaration
from hayase.sql.functions.python_source import PythonFunction

_OTHERS = tuple(
    {str(Path(sysconfig.get_path(name)).resolve()) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
)


@lru_cache(maxsize=4096)
def function_digest(declaration: Declaration) -> str:
    """The digest of one overload, as its files are when it is asked for first: best when they have been imported."""
    target = declaration.target
    parts = [declaration.kind.value, declaration.text]
    if isinstance(target, PythonFunction):
        parts += [*target.parameters, target.body]
    else:
        parts += _Sources().of(target)
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


class _Sources:
    """The parts of the user's modules that one function consists of."""

    def __init__(self) -> None:
        self._seen: set[tuple[str, str]] = set()
        self._parts: list[str] = []

    def of(self, target: Callable[..., Any]) -> list[str]:
        module, name = getattr(target, "__module__", None), getattr(target, "__qualname__", type(target).__qualname__)
        self._add(str(module), name.partition(".")[0])
        return self._parts

    def _add(self, module_name: str, name: str) -> None:
        """What the top level of a module binds a name to, and all that this uses."""
        if (module_name, name) in self._seen:
            return
        self._seen.add((module_name, name))
        module = sys.modules.get(module_name)
        tree = None if module is None else _tree_of(module)
        if module is None or tree is None:
            self._parts.append(f"{module_name}.{name}")
            return
        bound = [statement for statement in tree.body if name in _bound_by(statement)]
        if not bound:  # a lambda, or a name that is made in another way: all of the module
            bound = tree.body
        for statement in bound:
            self._parts.append(ast.unparse(_without_docstrings(statement)))
            for used in sorted(_names_in(statement)):
                if any(used in _bound_by(each) for each in tree.body):
                    self._add(module_name, used)
            self._follow_imports(statement, module)

    def _follow_imports(self, statement: ast.stmt, module: ModuleType) -> None:
        for node in ast.walk(statement):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    self._add_module(alias.name)
            elif isinstance(node, ast.ImportFrom):
                relative = "." * node.level + (node.module or "")
                name = importlib.util.resolve_name(relative, module.__package__) if node.level else relative
                for alias in node.names:
                    if f"{name}.{alias.name}" in sys.modules:
                        self._add_module(f"{name}.{alias.name}")
                    elif alias.name == "*":
                        self._add_module(name)
                    else:
                        self._add(name, alias.name)

    def _add_module(self, module_name: str) -> None:
        """All of a module: which of its names are used is not looked at."""
        module = sys.modules.get(module_name)
        tree = None if module is None else _tree_of(module)
        if tree is None or (module_name, "*") in self._seen:
            return
        self._seen.add((module_name, "*"))
        assert module is not None
        for statement in tree.body:
            self._parts.append(ast.unparse(_without_docstrings(statement)))
            self._follow_imports(statement, module)


def _tree_of(module: ModuleType) -> ast.Module | None:
    """The Python of a module of the user; `None` for others, and where there is no source."""
    file = getattr(module, "__file__", None)
    if file is None or module.__name__.partition(".")[0] == "hayase":
        return None
    path = Path(file).resolve()
    if path.suffix != ".py" or str(path).startswith(_OTHERS):
        return None
    try:
        return ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError):  # it is gone, or was changed since it was imported
        return None


def _bound_by(statement: ast.stmt) -> set[str]:
    """The names of a module that one of its statements binds."""
    return set(_bindings(statement))


def _bindings(statement: ast.AST) -> Iterator[str]:
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield statement.name
        return
    if isinstance(statement, ast.Import | ast.ImportFrom):
        for alias in statement.names:
            yield alias.asname or alias.name.partition(".")[0]
        return
    if isinstance(statement, ast.Name) and isinstance(statement.ctx, ast.Store):
        yield statement.id
    if isinstance(statement, ast.Lambda):
        return
    for child in ast.iter_child_nodes(statement):
        yield from _bindings(child)


def _names_in(statement: ast.stmt) -> set[str]:
    return {node.id for node in ast.walk(statement) if isinstance(node, ast.Name)}


def _without_docstrings(statement: ast.stmt) -> ast.stmt:
    for node in ast.walk(statement):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            first = node.body[0]
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and len(node.body) > 1:
                del node.body[0]
    return statement
