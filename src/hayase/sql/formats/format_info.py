"""A format with its properties, as a source's WITH clause or a plan says it."""

from __future__ import annotations

from dataclasses import dataclass

DELIMITER = "delimiter"
"""Property of DELIMITED: one character, `SPACE` or `TAB`."""
FULL_SCHEMA_NAME = "fullSchemaName"
"""Property of AVRO, PROTOBUF and JSON_SR: the full name of the schema's record."""
SCHEMA_ID = "schemaId"
"""Property of AVRO, PROTOBUF and JSON_SR: the id of the schema in the registry that values are written by."""
NULLABLE_REPRESENTATION = "nullableRepresentation"
"""Property of PROTOBUF and PROTOBUF_NOSR: `optional` or `wrapper`."""
UNWRAP_PRIMITIVES = "unwrapPrimitives"
"""Property of PROTOBUF: `true`: fields of wrapper messages are columns of what they wrap."""


@dataclass(frozen=True, slots=True)
class FormatInfo:
    """A format with its properties.

    Attributes:
        name: `AVRO`, `DELIMITED`, `JSON`, `JSON_SR`, `KAFKA`, `NONE`, `PROTOBUF`, `PROTOBUF_NOSR`.
        properties: name and value of each property that was given, by name.
        wrap: whether the only column is a field of a record (`True`) or bare (`False`); `None`: as the format does it.
            Means nothing where there are several columns.
    """

    name: str
    properties: tuple[tuple[str, str], ...] = ()
    wrap: bool | None = None

    def property(self, name: str) -> str | None:
        """The value of a property, `None` if it was not given."""
        return dict(self.properties).get(name)
