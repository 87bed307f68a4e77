"""Fields that event time is taken from, checked against the schema of the values."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from hayase.core.errors import TopologyError
from hayase.dsl.options.options import Consumed


def check_time_field(options: Consumed[object, object], owner: str) -> None:
    """Refuse a `field_timestamp` of a field that values of the source's serde do not have.

    Raises:
        TopologyError: `UNKNOWN_FIELD`.
    """
    extractor, serde = options.timestamp_extractor, options.value_serde
    columns = None if serde is None else serde.columns
    if extractor is None or extractor.field is None or columns is None:
        return
    schema, path = columns.schema, extractor.field.split(".")
    if schema.bare or (schema.python_type not in (None, dict) and hasattr(schema.python_type, path[0])):
        return  # values without fields have no such time, record by record; a class may have a property of that name
    fields: Mapping[str, object] = dict(schema.fields)
    for name in path:
        if name not in fields:
            raise TopologyError(
                "UNKNOWN_FIELD",
                f"field_timestamp({extractor.field!r}): there is no field {name!r}; there are: "
                f"{', '.join(fields) or 'none'}",
                node=owner,
            )
        inner = fields[name]
        fields = {field.name: field.dtype for field in inner.fields} if isinstance(inner, pl.Struct) else {}
