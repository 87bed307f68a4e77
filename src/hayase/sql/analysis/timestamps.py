"""The column of TIMESTAMP=: whether it can give the time of a record."""

from __future__ import annotations

from collections.abc import Mapping

from hayase.sql.catalog.sources import TimestampColumn
from hayase.sql.errors import StatementError
from hayase.sql.types.sql_types import BIGINT, STRING, TIMESTAMP, SqlType, quoted_name


def check_timestamp_column(timestamp: TimestampColumn | None, columns: Mapping[str, SqlType]) -> None:
    """The column of TIMESTAMP= has to be there, and to be a time.

    Raises:
        StatementError: it is not.
    """
    if timestamp is None:
        return
    if timestamp.name not in columns:
        raise StatementError(
            "INVALID_TIMESTAMP_COLUMN",
            f"The TIMESTAMP column set in the WITH clause does not exist in the schema: '{timestamp.name}'",
        )
    type_ = columns[timestamp.name]
    if timestamp.format is not None:
        if type_ != STRING:
            raise StatementError(
                "INVALID_TIMESTAMP_COLUMN",
                "A timestamp_format can only be specified if the timestamp column is of type String",
            )
    elif type_ not in (BIGINT, TIMESTAMP):
        raise StatementError(
            "INVALID_TIMESTAMP_COLUMN",
            f"Timestamp column, {quoted_name(timestamp.name)}, should be LONG(INT64), TIMESTAMP, or a String with a "
            "timestamp_format specified",
        )
