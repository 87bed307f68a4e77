"""JSON, one value at a time; its column form is in `json_columns`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, overload

import msgspec

from hayase.core.decoding import making_decoder
from hayase.core.errors import ConfigError, SerializationError
from hayase.core.objects import FieldValues, JsonObject
from hayase.core.type_variables import T
from hayase.serde.bare import READ_ERRORS, refuse
from hayase.serde.field_types import TypeHint
from hayase.serde.json_columns import JsonCodec, bad_json
from hayase.serde.protocol import ColumnCodec, Serde
from hayase.serde.pydantic_models import Model, is_model
from hayase.serde.shapes import Shape, non_finite, shape_of_schema, shape_of_type


class JsonSerde(Serde[T]):
    r"""JSON text in UTF-8.

    * `JsonSerde()`: any JSON value, as dict, list, str, int, float, bool. Rows only.
    * `JsonSerde(Order)`: instances of a dataclass or msgspec.Struct. Has a column form if its fields are int
      (64 bits), float, str, bool, lists of these or such types themselves, each possibly Optional; then a
      missing field takes its default, and is an error if it has none.
    * `JsonSerde(Model)`: instances of a Pydantic model (extra `pydantic`). With a column form under the same
      conditions, if the model does nothing of its own: no validators, constraints, aliases, settings. All other models
      are read and written by Pydantic itself, in its strict mode, in rows; what its validators refuse is a malformed
      value.
    * `JsonSerde(schema={"amount": pl.Int64, ...})`: dicts with exactly these fields. Has a column form.
      A missing field is `None`.

    Fields that are not asked for are ignored; of duplicates the last counts. Nothing is converted: `"5"` and
    `5.0` are no integers, `5` is a float. The text `null` is the null value. It writes compact text,
    fields in the order of the schema (of the dict, if there is none), characters as they are, floats in their
    shortest form. NaN and infinities, and integers beyond 64 bits in a field, are errors.

    Args:
        python_type: the type of the values.
        schema: Polars types by field name; not together with `python_type`.
        sort_fields: without schema and type: write the fields of dicts by name.

    Raises:
        ConfigError: both are given, or a type in the schema has no JSON form.

    Example:
        >>> import polars as pl
        >>> serde = JsonSerde(schema={"name": pl.String, "amount": pl.Float64})
        >>> serde.deserialize(b'{"amount": 5, "other": []}')
        {'name': None, 'amount': 5.0}
        >>> serde.serialize({"amount": 1e22, "name": "é"})
        b'{"name":"\xc3\xa9","amount":1e22}'
    """

    @overload
    def __init__(self: JsonSerde[T], python_type: type[T]) -> None: ...
    @overload
    def __init__(self: JsonSerde[FieldValues], python_type: None = None, *, schema: Mapping[str, object]) -> None: ...
    @overload
    def __init__(
        self: JsonSerde,
        python_type: object = None,
        *,
        schema: Mapping[str, object] | None = None,
        sort_fields: bool = False,
    ) -> None: ...
    def __init__(
        self, python_type: object = None, *, schema: Mapping[str, object] | None = None, sort_fields: bool = False
    ) -> None:
        if schema is not None and python_type is not None:
            raise ConfigError("INVALID_SERDE", "JsonSerde takes a type or a schema, not both")
        if sort_fields and (schema is not None or python_type is not None):
            raise ConfigError("INVALID_SERDE", "sort_fields is for JsonSerde without type and schema")
        self._python_type = python_type
        self._sort_fields = sort_fields
        self._shape: Shape | None = None
        if schema is not None:
            self._shape = shape_of_schema(schema)
        elif python_type is not None:
            self._shape = shape_of_type(python_type)

    def __getstate__(self) -> tuple[object, bool, Shape | None]:
        return (self._python_type, self._sort_fields, self._shape)

    def __setstate__(self, state: tuple[object, bool, Shape | None]) -> None:
        self._python_type, self._sort_fields, self._shape = state

    @property
    def python_type(self) -> TypeHint:
        """The type of the values; `None` if a schema, or nothing, says what they are."""
        return self._python_type

    def written_alike(self, other: JsonSerde) -> bool:
        """Whether two serdes read and write the same: of one type, or of the same fields in the same order."""
        mine, theirs = self._shape, other._shape
        if self._python_type is not None or mine is None or theirs is None:
            return (self._python_type, self._sort_fields, mine is None) == (
                other._python_type,
                other._sort_fields,
                theirs is None,
            )
        return other._python_type is None and mine.schema == theirs.schema

    @cached_property
    def _model(self) -> type[Model] | None:
        """The model that Pydantic itself reads and writes."""
        return self._python_type if self._shape is None and is_model(self._python_type) else None

    @cached_property
    def _decoder(self) -> msgspec.json.Decoder[Any]:
        python_type: TypeHint = self._python_type if self._shape is None else self._shape.twin
        with making_decoder():
            return msgspec.json.Decoder(Any if python_type is None else python_type | None)

    @cached_property
    def _encoder(self) -> msgspec.json.Encoder:
        return msgspec.json.Encoder(order="sorted" if self._sort_fields else None)

    def json_schema(self) -> JsonObject | None:
        """The JSON Schema of the values, `None` if they may be anything, or if there is none for their type."""
        if self._python_type is None:
            return None if self._shape is None else self._shape.json_schema()
        try:
            if is_model(self._python_type):
                return self._python_type.model_json_schema()
            return msgspec.json.schema(self._python_type)
        except (TypeError, RuntimeError):  # types without a known schema
            return None

    def to_bytes(self, value: Any) -> bytes:
        """Compact JSON; raises SerializationError for what has no JSON form or does not fit the schema."""
        if self._shape is not None:
            value = self._shape.check(value)
        elif isinstance(self._python_type, type) and not isinstance(value, self._python_type):
            raise refuse(self, value, self._python_type.__name__)
        try:
            text = self._encoder.encode(value) if self._model is None else value.model_dump_json(by_alias=True).encode()
        except READ_ERRORS as error:
            raise refuse(self, value, f"what JSON can hold ({error})") from error
        if b"null" in text and _has_non_finite(
            msgspec.to_builtins(value) if self._model is None else value.model_dump()
        ):
            raise non_finite(f"a number in {value!r:.200}")
        return text

    def from_bytes(self, data: bytes) -> Any:
        """The value, `None` for the text `null`; raises SerializationError."""
        try:
            if self._model is not None:
                return None if data.strip() == b"null" else self._model.model_validate_json(data, strict=True)
            value = self._decoder.decode(data)
            return value if value is None or self._shape is None else self._shape.make(value)
        except READ_ERRORS as error:
            raise bad_json(data, error) from error

    def deserialize_many(self, data: Sequence[bytes | None]) -> list[Any]:
        """See Serde; one loop in C."""
        if type(self).from_bytes is not JsonSerde.from_bytes or self._model is not None:
            return super().deserialize_many(data)
        texts: Sequence[Any] = [b"null" if text is None else text for text in data] if None in data else data
        try:
            values = list(map(self._decoder.decode, texts))
            return values if self._shape is None else self._shape.make_many(values)
        except READ_ERRORS as error:
            raise SerializationError("VALUE_NOT_DESERIALIZABLE", str(error)) from error

    @property
    def sorts_fields(self) -> bool:
        """Whether the fields of dicts are written by name."""
        return self._sort_fields

    @property
    def columns(self) -> ColumnCodec | None:
        """One column per field; `None` without schema or if the type has no column form."""
        return None if self._shape is None else JsonCodec(self._shape)


def _has_non_finite(value: object) -> bool:
    if isinstance(value, float):
        return not math.isfinite(value)
    if isinstance(value, dict):
        return any(map(_has_non_finite, value.values()))
    return isinstance(value, list | tuple) and any(map(_has_non_finite, value))
