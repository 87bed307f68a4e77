"""How commands ended, by their ids."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hayase.sql.ast import statements as ast
from hayase.sql.types.sql_types import quoted_name


@dataclass(frozen=True)
class CommandStatus:
    """How a command ended.

    Attributes:
        status: SUCCESS or ERROR.
        message: for people.
        query_id: of the query that it has started.
    """

    status: str
    message: str
    query_id: str | None = None

    @property
    def entity(self) -> Mapping[str, object]:
        """As JSON."""
        return {"status": self.status, "message": self.message, "queryId": self.query_id}


class CommandStatuses:
    """The last status of every id."""

    def __init__(self) -> None:
        self._statuses: dict[str, CommandStatus] = {}

    def put(self, command_id: str, status: CommandStatus) -> None:
        """Note a status."""
        self._statuses[command_id] = status

    def get(self, command_id: str) -> CommandStatus | None:
        """The status of an id; `None`: there is no such command."""
        return self._statuses.get(command_id)

    def all(self) -> dict[str, CommandStatus]:
        """All statuses by id, in the order of the commands."""
        return dict(self._statuses)


def command_id(statement: ast.Statement) -> str:
    """The id of a statement that is a command: `type/entity/action`."""
    match statement:
        case ast.CreateSource() | ast.CreateAsSelect():
            return f"{statement.kind.value.lower()}/{quoted_name(statement.name)}/create"
        case ast.InsertInto(target):
            return f"stream/{quoted_name(target)}/create"
        case ast.DropSource(kind, name):
            return f"{kind.value.lower()}/{name}/drop"
        case ast.AlterSource(kind, name):
            return f"{kind.value.lower()}/{name}/alter"
        case ast.CreateType(name):
            return f"type/{name}/create"
        case ast.DropType(name):
            return f"type/{name}/drop"
        case ast.CreateFunction(name):
            return f"function/{name}/create"
        case ast.DropFunction(name):
            return f"function/{name}/drop"
        case ast.QueryControl(action, query_id):
            return f"{action.value.lower()}/{query_id or 'ALL'}/execute"
    raise AssertionError(f"{type(statement).__name__} is no command")
