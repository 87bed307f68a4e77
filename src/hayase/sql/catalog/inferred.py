"""Columns that a schema registry gave, kept from one run of a program to the next."""

from __future__ import annotations

from collections.abc import Callable

from hayase.core.objects import JsonObject
from hayase.serde.protocol import Side
from hayase.sql.catalog.stored import columns_from_json, columns_to_json
from hayase.sql.formats.columns import Column
from hayase.sql.formats.format_info import FormatInfo


class InferredColumns:
    """Columns that the schema registry gave for statements, which later runs of the same statements have again.

    A schema that changes in the registry would change what a running query reads: it counts when the statement does.

    Args:
        known: those of the last run, as `to_json` wrote them.
    """

    def __init__(self, known: JsonObject | None = None) -> None:
        self._known = known or {}
        self._used: JsonObject = {}

    def of(
        self, statement: str, topic: str, format_: FormatInfo, side: Side, infer: Callable[[], tuple[Column, ...]]
    ) -> tuple[Column, ...]:
        """The columns of one side of a source.

        Args:
            statement: its text; where that has variables, their values are what topic and format say of them.
            topic: of the source.
            format_: of that side.
            side: key or value.
            infer: asks the registry.
        """
        name = f"{side} {format_.name} {' '.join(statement.split())}"
        if "${" in statement:
            name += f" of {topic} {format_.properties} {format_.wrap}"
        known = self._known.get(name)
        columns = infer() if known is None else columns_from_json(known)
        self._used[name] = columns_to_json(columns)
        return columns

    def to_json(self) -> JsonObject:
        """Those of the statements of this run."""
        return self._used
