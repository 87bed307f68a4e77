"""Which commands a function of a user sends, and which events an aggregate emits, as far as their code says."""

from __future__ import annotations

import types
import typing
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from hayase.patterns.decider import Rejected
from hayase.patterns.reactions import CommandTarget, deadline
from hayase.patterns.type_names import union_members

if TYPE_CHECKING:
    from hayase.patterns.event_sourced import EventSourced


@dataclass(frozen=True)
class SentCommands:
    """What the code of a function names.

    Attributes:
        commands: types of commands by addressee; an addressee without types is named, and with which is not seen.
        later: it sets deadlines.
    """

    commands: tuple[tuple[CommandTarget[Any], tuple[str, ...]], ...]
    later: bool


def sent_commands(function: Callable[..., object], to: CommandTarget[Any] | None = None) -> SentCommands:
    """The commands that a reaction, an action or an undo can make: those that its code names.

    The code of functions that it calls counts as far as they are of its module. What comes from elsewhere (a table of
    functions, an attribute of an object) is not seen.

    Args:
        function: of a user.
        to: the addressee of what an action or an undo gives.
    """
    named = list(_named(function, set()))
    targets = {each.name: each for each in (*named, to) if isinstance(each, CommandTarget)}
    classes = [each for each in named if isinstance(each, type)]
    found = []
    for target in targets.values():
        names = dict.fromkeys(name for each in classes if (name := target.command_types.name_of_type(each)))
        found.append((target, tuple(names)))
    return SentCommands(tuple(found), any(each is deadline for each in named))


def emitted_events(aggregate: EventSourced[Any, Any, Any]) -> set[str] | None:
    """Names of the events that `decide` is annotated to give; `None`: its annotation does not say."""
    members = _decided(aggregate)
    if members is None:
        return None
    names = [aggregate.event_types.name_of_type(each) for each in members if each is not Rejected]
    return None if not names or None in names else {name for name in names if name}


def can_reject(aggregate: EventSourced[Any, Any, Any]) -> bool:
    """Whether `decide` is annotated to give `Rejected`."""
    return Rejected in (_decided(aggregate) or ())


def _decided(aggregate: EventSourced[Any, Any, Any]) -> list[Any] | None:
    """The types of events, and `Rejected`, of the annotation of what `decide` gives."""
    try:
        hint = typing.get_type_hints(aggregate.decider.decide)["return"]
    except (TypeError, NameError, KeyError, AttributeError):
        return None
    found: list[Any] = []
    for member in union_members(hint):
        if member is type(None):
            continue
        if member is Rejected:
            found.append(member)
            continue
        arguments = [each for each in typing.get_args(member) if each is not Ellipsis]
        found += [each for argument in arguments for each in union_members(argument)] or [member]
    return found


def _named(function: object, seen: set[int]) -> Iterator[object]:
    """Objects that the code of a function names, with that of functions of its module that it calls."""
    if isinstance(function, partial):
        yield from (*function.args, *function.keywords.values())
        function = function.func
    function = getattr(function, "__func__", function)
    if not isinstance(function, types.FunctionType) or id(function) in seen:
        return
    seen.add(id(function))
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    names = list(_names(function.__code__))
    found: list[object] = []
    for name in names:
        if name in function.__globals__:
            found.append(function.__globals__[name])
        elif name in cells:
            try:
                found.append(cells[name].cell_contents)
            except ValueError:  # it has no value yet
                continue
    modules = [each for each in found if isinstance(each, types.ModuleType)]
    found += [vars(module)[name] for module in modules for name in names if name in vars(module)]
    for each in (*found, *(function.__defaults__ or ())):
        yield each
        if getattr(each, "__module__", None) == function.__module__:
            yield from _named(each, seen)


def _names(code: types.CodeType) -> Iterator[str]:
    yield from code.co_names
    yield from code.co_freevars
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names(constant)
