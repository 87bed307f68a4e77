"""Errors of SQL statements, each with the position in the statement."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from hayase.core.errors import HayaseError
from hayase.sql.ast.location import Location


class SqlError(HayaseError, ValueError):
    """Root of what is wrong with a statement.

    Attributes:
        location: line and column in the script; `None` if it is about the whole statement.
        statement: the text of the statement, where it is known.
    """

    def __init__(
        self,
        condition: str,
        message: str,
        *,
        location: Location | None = None,
        statement: str | None = None,
        **context: Any,
    ) -> None:
        position = {} if location is None else {"line": location.line, "column": location.column}
        super().__init__(condition, message, **position, **context)
        self.location = location
        self.statement = statement

    def locate(self, location: Location | None) -> None:
        """Give the error the position of the part of the statement that it is about, unless it has one."""
        if self.location is None and location is not None:
            self.location = location
            self.context = {"line": location.line, "column": location.column, **self.context}


@contextmanager
def located(location: Location | None) -> Iterator[None]:
    """Errors that are about a part of a statement and have no position yet get that of the part."""
    try:
        yield
    except SqlError as error:
        error.locate(location)
        raise


class ParseFailedError(SqlError):
    """The text is no statement of the dialect."""


class StatementError(SqlError):
    """A statement was understood and cannot be carried out: unknown names, types that do not fit, forbidden shapes."""


class FunctionError(HayaseError, ValueError):
    """A function refuses its argument while a record is processed; the expression is null, the log has the reason."""
