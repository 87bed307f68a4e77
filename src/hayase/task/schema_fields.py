"""Fields of a schema that the values of a topic do not have, and are most likely misspelt.

To the application they are null, so nothing fails: rows are filtered out, join nothing, or add up to nothing.
"""

from __future__ import annotations

import difflib
import logging

import msgspec

from hayase.log.protocol import RecordBatch
from hayase.serde.json_serde import JsonSerde
from hayase.serde.protocol import Serde

_LOG = logging.getLogger("hayase.task")

_ENOUGH = 5
"""So many values tell that a field is missing, where no field of theirs has a similar name."""
_FIELDS_MAX = 20


class SchemaFields:
    """Compares the first values that a source reads in this process with the fields of its schema."""

    def __init__(self) -> None:
        self._values = 0
        self._found: set[str] = set()
        self._reported: set[str] = set()
        self._done = False

    def look(self, node: str, serde: Serde, raw: RecordBatch) -> None:
        """Take the next records; each field that is missing is reported once. Costs nothing after the first values."""
        if self._done:
            return
        if not isinstance(serde, JsonSerde) or serde.python_type is not None or serde.columns is None:
            self._done = True
            return
        schema = serde.columns.schema.names
        for data in raw.values[: _ENOUGH * 2]:
            self._take(data)
        beside = sorted(self._found - set(schema))
        for field in schema if beside else ():
            near = difflib.get_close_matches(field, beside, 1)
            if field not in self._found | self._reported and (near or self._values >= _ENOUGH):
                self._reported.add(field)
                _warn(node, raw.topic, field, self._values, beside, near)
        self._done = self._values >= _ENOUGH

    def _take(self, data: bytes | None) -> None:
        try:
            value = None if data is None else msgspec.json.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError):  # for the exception handler
            return
        if isinstance(value, dict):
            self._values += 1
            self._found.update(value)


def _warn(node: str, topic: str, field: str, values: int, beside: list[str], near: list[str]) -> None:
    _LOG.warning(
        "the schema of %s has the field %r, which %s of topic %s has, so it is null. "
        "Fields that the schema does not have: %s.%s",
        node,
        field,
        "not the first value" if values == 1 else f"none of the first {values} values",
        topic,
        ", ".join(beside[:_FIELDS_MAX]),
        f" Is it {near[0]!r}?" if near else "",
        extra={"node": node, "topic": topic, "once": f"{node}/{field}"},
    )
