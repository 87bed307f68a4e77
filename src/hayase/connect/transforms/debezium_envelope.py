"""What Debezium's transforms have in common: envelopes, and references to fields of them."""

from __future__ import annotations

from dataclasses import dataclass

from hayase.connect.config.types import invalid
from hayase.connect.model import ConnectRecord
from hayase.connect.schema import ConnectSchema, SchemaType

_TRANSACTION_FIELDS = ("id", "total_order", "data_collection_order")
_ENVELOPE_FIELDS = ("op", "ts_ms", "ts_us", "ts_ns")
_STRUCTS = ("before", "after", "source", "transaction")


def envelope_of(record: ConnectRecord) -> dict[str, object] | None:
    """The value of a record that is one of Debezium's envelopes, or `None`."""
    schema, value = record.value_schema, record.value
    if schema is None or schema.type is not SchemaType.STRUCT or not isinstance(value, dict):
        return None
    return value if (schema.name or "").endswith("Envelope") and schema.field("op") is not None else None


@dataclass(frozen=True, slots=True)
class FieldReference:
    """A field of an envelope, and the name that it gets.

    Attributes:
        struct: the part of the envelope; `None`: the envelope itself.
        field: in it.
        name: the new name.
    """

    struct: str | None
    field: str
    name: str

    @classmethod
    def parse(cls, setting: str, text: str, prefix: str) -> FieldReference:
        """Read `op`, `lsn`, `source.lsn` or `source.lsn:position`; raises `ConfigError`.

        Example:
            >>> FieldReference.parse("add.fields", "source.ts_ms", "__")
            FieldReference(struct='source', field='ts_ms', name='__source_ts_ms')
        """
        path, _, alias = text.partition(":")
        struct, dot, field = path.strip().rpartition(".")
        if dot and struct not in _STRUCTS:
            raise invalid(setting, text, f"the part before the dot must be one of {', '.join(_STRUCTS)}")
        found: str | None = struct
        if not dot:
            found = None if field in _ENVELOPE_FIELDS else "transaction" if field in _TRANSACTION_FIELDS else "source"
        default = f"{struct}_{field}" if dot else field
        return cls(found, field, prefix + (alias.strip() or default))

    def schema(self, envelope: ConnectSchema) -> ConnectSchema | None:
        """The schema of the field; `None`: the envelope has no such field."""
        if self.struct is not None:
            part = envelope.field(self.struct)
            if part is None or part.schema.type is not SchemaType.STRUCT:
                return None
            envelope = part.schema
        found = envelope.field(self.field)
        return None if found is None else found.schema.as_optional()

    def value(self, envelope: dict[str, object]) -> object:
        """The value of the field; `None` where the part is absent."""
        part = envelope if self.struct is None else envelope.get(self.struct)
        return part.get(self.field) if isinstance(part, dict) else None
