"""Rows as Protobuf messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hayase.core.errors import ConfigError
from hayase.server.rows import ResultColumn
from hayase.sql.errors import StatementError
from hayase.sql.formats.columns import Column
from hayase.sql.formats.format_info import FormatInfo
from hayase.sql.formats.protobuf_format import PlainProtobufPayload, schema_of

_FORMAT = FormatInfo("PROTOBUF_NOSR")


class ProtobufRows:
    """Rows as messages of a schema that is made of the columns; nulls are fields that are not set.

    Args:
        columns: of the rows.

    Raises:
        StatementError: Protobuf has no such types or names.
    """

    def __init__(self, columns: Sequence[ResultColumn]) -> None:
        described = [Column(column.name, column.type) for column in columns]
        self._names = [column.name for column in columns]
        try:
            self._payload = PlainProtobufPayload(_FORMAT, described)
            self.schema_text = schema_of(_FORMAT, described).text
        except ConfigError as error:
            raise StatementError(
                "NO_PROTOBUF_SCHEMA",
                f"the rows cannot be messages of Protobuf: {error.message}. Give columns names of letters, digits and "
                "'_' with AS, or ask for another encoding",
            ) from error

    def __call__(self, row: Sequence[Any]) -> bytes:
        """The message of a row."""
        return self._payload.write(dict(zip(self._names, row, strict=True)))
