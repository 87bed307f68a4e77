"""Sub-commands whose modules are imported when they are used: the command starts quickly, and without the extras."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command


@dataclass(frozen=True)
class Deferred:
    """Where a sub-command is.

    Attributes:
        name: of the sub-command.
        module: that holds it.
        attribute: in the module: a function, or a Typer application with sub-commands of its own.
        short_help: its line in the list of commands; what a group says of itself.
    """

    name: str
    module: str
    attribute: str
    short_help: str

    def load(self) -> Any:
        """The command, as the parser of the command line knows it.

        Raises:
            ModuleNotFoundError: it needs a package that is not installed.
        """
        found = getattr(import_module(self.module), self.attribute)
        command: Any = get_command(found if isinstance(found, typer.Typer) else self._application(found))
        command.name = self.name
        return command

    def _application(self, function: Callable[..., object]) -> typer.Typer:
        application = typer.Typer(rich_markup_mode=None, add_completion=False)
        application.command(self.name, short_help=self.short_help)(function)
        return application


class DeferredCommand(TyperCommand):
    """A sub-command that is imported when its arguments are parsed."""

    def __init__(self, deferred: Deferred) -> None:
        super().__init__(deferred.name, short_help=deferred.short_help, rich_markup_mode=None)
        self._deferred = deferred

    def make_context(self, info_name: str | None, args: list[str], *rest: Any, **named: Any) -> Any:
        """The context of the command itself."""
        return self._deferred.load().make_context(info_name, args, *rest, **named)


def group_of(*commands: Deferred) -> type[TyperGroup]:
    """A class of groups that have these sub-commands, in this order."""

    class DeferredGroup(TyperGroup):
        def __init__(self, **named: Any) -> None:
            super().__init__(**named)
            for each in commands:
                self.add_command(DeferredCommand(each))

    return DeferredGroup
