"""Which part of a program cannot be pickled, and which of the user's functions needs it."""

from __future__ import annotations

import functools
import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import polars as pl
from pyspark.cloudpickle import cloudpickle as internals

from hayase.core.call_site import is_users_file, shown_file
from hayase.runtime.wire.pickling import dumps, failed_part
from hayase.topology.nodes import ProcessorNode, SinkNode, SourceNode

_DEPTH_MAX = 60
_NODES = (ProcessorNode, SinkNode, SourceNode)


@dataclass(frozen=True)
class UnpicklablePart:
    """What cannot be pickled.

    Attributes:
        value: the smallest part that fails.
        variable: what the function, or the object, calls it; empty if nothing of the user leads to it.
        function: the user's function that needs it, with file and line.
        node: the node of the topology that it belongs to.
    """

    value: Any
    variable: str = ""
    function: str = ""
    node: str | None = None

    def __str__(self) -> str:
        kind = type(self.value)
        what = f"a {kind.__module__}.{kind.__qualname__}".replace("builtins.", "")
        named = f"{self.variable!r}, {what}" if self.variable else what
        return f"{self.function} uses {named}" if self.function else f"it holds {named}"


def unpicklable_part(program: object) -> UnpicklablePart:
    """The part that fails; for errors only, as it pickles many parts one by one."""
    culprit = UnpicklablePart(program)
    seen: set[int] = set()
    for _ in range(_DEPTH_MAX):
        seen.add(id(culprit.value))
        step = next(
            ((name, part) for name, part in _parts(culprit.value) if id(part) not in seen and _fails(part)), None
        )
        if step is None:
            break
        culprit = _further(culprit, *step)
    return culprit


def _further(culprit: UnpicklablePart, name: str, part: object) -> UnpicklablePart:
    if isinstance(part, types.FunctionType) and is_users_file(part.__code__.co_filename):
        code = part.__code__
        line = f"{shown_file(code.co_filename)}:{code.co_firstlineno} in {code.co_name}"
        return replace(culprit, value=part, function=line, variable="")
    if isinstance(part, _NODES):
        return replace(culprit, value=part, node=part.name)
    if not name or (not culprit.function and not culprit.node):
        return replace(culprit, value=part)
    return replace(culprit, value=part, variable=f"{culprit.variable}.{name}" if culprit.variable else name)


def _fails(part: object) -> bool:
    try:
        dumps(part)
    except Exception:  # pickling fails in as many ways as there are objects
        return True
    return False


def _parts(value: object) -> Iterator[tuple[str, object]]:
    """What an object consists of for a pickle, with the names that a program has for it."""
    if isinstance(value, types.FunctionType):
        yield from _parts_of_function(value)
    elif isinstance(value, types.MethodType):
        yield from (("self", value.__self__), ("", value.__func__))
    elif isinstance(value, functools.partial):
        yield from (("", value.func), *(("", each) for each in value.args), *value.keywords.items())
    elif isinstance(value, Mapping):
        yield from ((name if isinstance(name, str) else "", part) for name, part in value.items())
    elif isinstance(value, list | tuple | set | frozenset):
        yield from (("", part) for part in value)
    elif isinstance(value, pl.Expr):
        part = failed_part(value)
        yield from () if part is None else (("", part),)
    elif isinstance(value, type):
        yield from ((name, getattr(part, "__func__", part)) for name, part in vars(value).items() if callable(part))
    else:
        yield from _parts_of_object(value)


def _parts_of_function(function: types.FunctionType) -> Iterator[tuple[str, object]]:
    code = function.__code__
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield name, cell.cell_contents
        except ValueError:  # not bound yet
            continue
    for name in internals._extract_code_globals(code):
        if name in function.__globals__:
            yield name, function.__globals__[name]
    positional = code.co_varnames[: code.co_argcount]
    defaults = function.__defaults__ or ()
    yield from zip(positional[len(positional) - len(defaults) :], defaults, strict=True)
    yield from (function.__kwdefaults__ or {}).items()
    yield from vars(function).items()


def _parts_of_object(value: object) -> Iterator[tuple[str, object]]:
    yield "", type(value)
    try:
        reduced = value.__reduce_ex__(5)
    except Exception:  # this is where it fails
        return
    if not isinstance(reduced, tuple):
        return
    for part in reduced[1:]:
        if isinstance(part, Mapping):
            yield from _parts(part)
        elif isinstance(part, list | tuple):  # slots of a class are a dict, those of a dataclass a list
            for each in part:
                yield from _parts(each) if isinstance(each, Mapping) else (("", each),)
