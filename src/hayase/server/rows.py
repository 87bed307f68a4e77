"""The rows that a query answers, as they come: what pull and push queries give and encodings take."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from hayase.sql.errors import SqlError
from hayase.sql.types.sql_types import SqlType, quoted_name

LIMIT_REACHED = "Limit Reached"
QUERY_COMPLETED = "Query Completed"


@dataclass(frozen=True, slots=True)
class ResultColumn:
    """A column of an answer.

    Attributes:
        name: as it counts.
        type: of its values.
        is_key: it is shown as part of the key, as in answers of pull queries.
    """

    name: str
    type: SqlType
    is_key: bool = False


@dataclass(frozen=True, slots=True)
class RowHeader:
    """What comes before the rows.

    Attributes:
        query_id: for `/close-query`; `None` if the query ends by itself.
        columns: of every row, in order.
        epoch: the epoch that all rows are of, where the query reads the stores of one.
        has_end: the last batch has a message or an error, as of all queries but those of tables.
    """

    query_id: str | None
    columns: tuple[ResultColumn, ...]
    epoch: int | None = None
    has_end: bool = True

    @property
    def schema_text(self) -> str:
        """The columns as ksqlDB shows them: `ID` INTEGER KEY, `NAME` STRING."""
        return ", ".join(
            f"{quoted_name(column.name)} {column.type}{' KEY' if column.is_key else ''}" for column in self.columns
        )


@dataclass(frozen=True, slots=True)
class RowBatch:
    """Rows that are there at once; the last batch of an answer may end it with a message or an error.

    Attributes:
        rows: values of the columns, in order.
        tombstones: indexes of the rows that delete the row of their key: all columns but those of the key are null.
        final_message: the answer is complete, and why.
        error: the query has failed, after some of its rows.
    """

    rows: Sequence[Sequence[Any]] = ()
    tombstones: frozenset[int] = field(default=frozenset())
    final_message: str | None = None
    error: SqlError | None = None


class RowStream(Protocol):
    """The answer of one query. Closing it ends the query and frees all that it holds.

    Attributes:
        header: what comes before the rows.
    """

    header: RowHeader

    def __aiter__(self) -> AsyncIterator[RowBatch]:
        """The batches, as they come; the iteration ends behind the last one."""
        ...

    async def close(self) -> None:
        """End the query; calling it again does nothing."""
        ...
