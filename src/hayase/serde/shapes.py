"""Records of named fields: the types of their columns, and a msgspec twin that decides what fits.

Both forms of a serde go through the twin, so that they accept, refuse and write the same.
"""

from __future__ import annotations

import dataclasses
import inspect
import typing
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from operator import attrgetter
from types import NoneType, UnionType
from typing import Any, Union

import msgspec
import polars as pl

from hayase.core.decoding import making_decoder
from hayase.core.errors import ConfigError, SerializationError
from hayase.core.objects import JsonObject
from hayase.serde.bare import READ_ERRORS, cast
from hayase.serde.field_types import TypeHint, hint_of, instance_of, int_within, json_schema_of
from hayase.serde.protocol import Schema
from hayase.serde.pydantic_models import is_model, plain_fields

_PLAIN_OF_HINT: dict[object, pl.DataType] = {
    float: pl.Float64(),
    str: pl.String(),
    bool: pl.Boolean(),
}


@dataclasses.dataclass(frozen=True, slots=True)
class _Field:
    name: str
    written: str
    hint: TypeHint
    dtype: pl.DataType
    nullable: bool
    default: object = msgspec.NODEFAULT
    default_factory: object = msgspec.NODEFAULT

    def definition(self) -> tuple[str, TypeHint, object]:
        """The field as `msgspec.defstruct` takes it."""
        defaults = {"default": self.default, "default_factory": self.default_factory}
        return self.name, self.hint, msgspec.field(name=self.written, **defaults)


class Shape:
    """A record of fields: its schema, its twin, and the way from one to the other.

    Attributes:
        schema: names and column types.
        twin: msgspec struct of the fields, for reading and checking; it has the defaults, and limits of ints.
        filled: the same without defaults, made from positional values: for writing.
        nested: some field is a list or a record itself.
    """

    def __init__(self, fields: Sequence[_Field], python_type: type[object]) -> None:
        self._fields = list(fields)
        self.schema = Schema(tuple((f.name, f.dtype) for f in fields), python_type=python_type)
        self.twin = msgspec.defstruct(
            python_type.__name__, [f.definition() for f in fields], kw_only=True, gc=False, eq=False
        )
        self.filled = msgspec.defstruct(
            python_type.__name__,
            [(f.name, Any, msgspec.field(name=f.written)) for f in fields],
            gc=False,
            eq=False,
        )
        with making_decoder(), suppress(TypeError):  # so that threads may convert at once; not all types can be decoded
            msgspec.json.Decoder(self.twin)
            msgspec.json.Decoder(python_type)
        self._names = self.schema.names
        self._construct: Callable[..., object] = python_type
        self._accepted = Mapping if python_type is dict else python_type
        self.nested = any(f.dtype.is_nested() for f in fields)
        self._empty = self.twin(**dict.fromkeys(self.schema.names))
        self._are_twins_dicts = python_type is dict and not self.nested
        self._is_model = is_model(python_type)
        self._positional = python_type is not dict and _takes_positional(python_type, self.schema.names)

    @property
    def hints(self) -> list[tuple[str, TypeHint]]:
        """Name and type hint of each field; the hint has the limits of integers."""
        return [(f.name, f.hint) for f in self._fields]

    @property
    def nullable(self) -> list[bool]:
        """Whether each field may be null."""
        return [f.nullable for f in self._fields]

    def __reduce__(self) -> tuple[object, ...]:
        python_type = self.schema.python_type
        source = dict(self.schema.fields) if python_type is dict else python_type
        return (_rebuild, (source, self.schema))

    def json_schema(self) -> JsonObject:
        """The JSON Schema of dicts with these fields, each of which may be null or missing."""
        return json_schema_of(pl.Struct(dict(self.schema.fields)))

    def check(self, value: object) -> msgspec.Struct:
        """The twin of a value that is not null.

        Raises:
            SerializationError: it is of another type, a field has a wrong type or is missing.
        """
        python_type = self.schema.python_type
        if type(value) is not python_type and not isinstance(value, self._accepted):
            raise self._refuse(value, "it is of another type")
        try:
            return msgspec.convert(value, self.twin, from_attributes=python_type is not dict)
        except READ_ERRORS as error:
            raise self._refuse(value, str(error)) from error

    def make(self, twin: msgspec.Struct) -> object:
        """The row form's value of a twin."""
        if self._are_twins_dicts:
            return msgspec.structs.asdict(twin)
        return self.make_of(msgspec.structs.astuple(twin))

    def make_many(self, twins: Sequence[msgspec.Struct | None]) -> list[object]:
        """The row form's values of twins; those that are `None` stay so."""
        make = msgspec.structs.asdict if self._are_twins_dicts else self.make
        if None in twins:
            return [None if twin is None else make(twin) for twin in twins]
        return list(map(make, twins))  # type: ignore[arg-type] # none of them is None

    def make_of(self, values: Sequence[object]) -> object:
        """The row form's value of the fields in order; nested ones may be structs or dicts."""
        if self.schema.python_type is dict:
            fields = dict(zip(self._names, values, strict=True))
            return msgspec.to_builtins(fields, builtin_types=(bytes,)) if self.nested else fields
        if self.nested and self._is_model:
            fields = dict(zip(self._names, values, strict=True))
            return self._construct(**msgspec.to_builtins(fields, builtin_types=(bytes,)))
        if self.nested:
            return msgspec.convert(self.filled(*values), self.schema.python_type, from_attributes=True)
        return (
            self._construct(*values)
            if self._positional
            else self._construct(**dict(zip(self._names, values, strict=True)))
        )

    def frame(
        self, twins: Sequence[msgspec.Struct | None], wanted: frozenset[str] | None = None
    ) -> tuple[pl.DataFrame, pl.Series]:
        """Columns of twins, all or those that are wanted.

        A `None` among them is a row of nulls, flagged in the series.
        """
        fields = [field for field in self.schema.fields if wanted is None or field[0] in wanted]
        null = pl.repeat(False, len(twins), dtype=pl.Boolean, eager=True)
        try:
            columns = [self._column(name, dtype, twins) for name, dtype in fields]
        except AttributeError:  # only None lacks the fields, and mostly there is none
            null = pl.Series([twin is None for twin in twins], dtype=pl.Boolean)
            present = [self._empty if twin is None else twin for twin in twins]
            columns = [self._column(name, dtype, present) for name, dtype in fields]
        if not columns:
            null = pl.Series([twin is None for twin in twins], dtype=pl.Boolean)
        return pl.DataFrame(columns or None, height=len(twins)), null

    def _column(self, name: str, dtype: pl.DataType, twins: Sequence[msgspec.Struct | None]) -> pl.Series:
        values = list(map(attrgetter(name), twins))
        if dtype.is_nested():
            values = msgspec.to_builtins(values, builtin_types=(bytes,))
        return pl.Series(name, values, dtype=dtype)

    def rows(self, frame: pl.DataFrame) -> list[msgspec.Struct]:
        """Each row as a struct whose fields, in order, are to be written.

        Raises:
            SerializationError: a column has a type or a null that the schema does not allow.
        """
        columns = self.columns(frame)
        self.refuse_nulls(columns)
        if not columns:
            return [self.filled() for _ in range(frame.height)]
        rows = list(map(self.filled, *[column.to_list() for column in columns]))
        if not self.nested:
            return rows
        try:
            twins: list[msgspec.Struct] = msgspec.convert(rows, list.__class_getitem__(self.twin), from_attributes=True)
        except READ_ERRORS as error:
            raise SerializationError("VALUE_NOT_SERIALIZABLE", f"{self._name()}: {error}") from error
        return twins

    def columns(self, frame: pl.DataFrame) -> list[pl.Series]:
        """The schema's columns of a frame, in the schema's types and order; raises SerializationError."""
        return [cast(self, frame[name], dtype) for name, dtype in self.schema.fields]

    def to_python(self, frame: pl.DataFrame, null: pl.Series | None) -> list[object]:
        """The row form's value of each row."""
        if null is not None and null.any():
            present = iter(self.to_python(frame.filter(~null), None))
            return [None if gone else next(present) for gone in null.to_list()]
        columns = [column.to_list() for column in self.columns(frame)]
        if not columns:
            return [self.make_of(()) for _ in range(frame.height)]
        if self.schema.python_type is dict:
            names = self._names
            return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
        if self._positional and not self.nested:
            return list(map(self._construct, *columns))
        return list(map(self.make_of, zip(*columns, strict=True)))

    def from_python(self, values: Sequence[object]) -> tuple[pl.DataFrame, pl.Series]:
        """Columns and null flags of the row form's values; raises SerializationError."""
        try:
            return self.frame([None if value is None else self.check(value) for value in values])
        except (TypeError, OverflowError, UnicodeEncodeError, pl.exceptions.PolarsError) as error:
            raise SerializationError("VALUE_NOT_SERIALIZABLE", f"{self._name()}: {error}") from error

    def refuse_nulls(self, columns: Sequence[pl.Series]) -> None:
        """Raises SerializationError if a column holds a null that its field does not allow."""
        for field, column in zip(self._fields, columns, strict=True):
            if not field.nullable and column.null_count():
                raise SerializationError(
                    "VALUE_NOT_SERIALIZABLE",
                    f"field {field.name!r} of {self._name()} is never null; a row has null in it",
                )

    def refuse_non_finite(self, columns: Sequence[pl.Series]) -> None:
        """Raises SerializationError if a Float64 column holds NaN or an infinity."""
        for column in columns:
            if column.dtype == pl.Float64 and not column.is_finite().all():
                raise non_finite(f"field {column.name!r} of {self._name()}")

    def _name(self) -> str:
        python_type = self.schema.python_type
        return "dict" if python_type is None else python_type.__name__

    def _refuse(self, value: object, reason: str) -> SerializationError:
        fields = ", ".join(f"{name}: {dtype}" for name, dtype in self.schema.fields)
        return SerializationError(
            "VALUE_NOT_SERIALIZABLE",
            f"the serde writes {self._name()} with {fields}; it was given {value!r:.200}: {reason}",
        )


def non_finite(where: str) -> SerializationError:
    """The error for NaN and infinities where the format has no text for them."""
    return SerializationError(
        "VALUE_NOT_SERIALIZABLE",
        f"{where} is NaN or infinite, which JSON cannot write; write null or a finite number",
    )


def _rebuild(source: object, schema: Schema) -> Shape:
    shape = shape_of_schema(source, binary=True) if isinstance(source, dict) else shape_of_type(source)
    if shape is None or shape.schema != schema:
        raise ConfigError("SERDE_CHANGED", f"the fields of {source!r} are no longer those that were pickled")
    return shape


def shape_of_schema(schema: Mapping[str, object], *, binary: bool = False) -> Shape:
    """The shape of dicts with these fields, all of which may be null.

    Args:
        schema: Polars types by field name: signed integers, unsigned ones up to 32 bits, Float64, String,
            Boolean, and List and Struct of these.
        binary: allow Binary too.

    Raises:
        ConfigError: a type is not among these, or a name begins with `__`.
    """
    fields = []
    for name, given in schema.items():
        if name.startswith("__"):
            raise ConfigError("INVALID_FIELD_NAME", f"field {name!r}: names that begin with __ are reserved")
        fields.append(_Field(name, name, hint_of(name, given, binary), instance_of(given), True, None))
    return Shape(fields, dict)


def shape_of_type(python_type: object) -> Shape | None:
    """The shape of a dataclass, msgspec.Struct or Pydantic model; `None` if it has no column form.

    It has one if it does nothing of its own when it is read or written (`__post_init__`, tags, left-out
    defaults, validators, ...; other names for the fields of a Struct are fine) and its fields are int, float, str,
    bool, lists of these, or types that have a column form themselves, each possibly Optional.
    """
    fields = _fields_of(python_type, ())
    return Shape(fields, python_type) if fields is not None and isinstance(python_type, type) else None


def _fields_of(python_type: object, outer: tuple[object, ...]) -> list[_Field] | None:
    if not isinstance(python_type, type) or python_type in outer or hasattr(python_type, "__post_init__"):
        return None
    if issubclass(python_type, msgspec.Struct):
        config = python_type.__struct_config__
        special = config.tag is not None or config.array_like or config.omit_defaults
        if special or config.forbid_unknown_fields:
            return None
        given = [
            (f.name, f.encode_name, f.type, f.default, f.default_factory) for f in msgspec.structs.fields(python_type)
        ]
    elif dataclasses.is_dataclass(python_type):
        hints = typing.get_type_hints(python_type, include_extras=True)
        if not all(f.init for f in dataclasses.fields(python_type)):
            return None
        given = [
            (f.name, f.name, hints[f.name], _or_none(f.default), _or_none(f.default_factory))
            for f in dataclasses.fields(python_type)
        ]
    elif is_model(python_type) and all(map(is_model, outer)):  # nothing but a model makes models of its fields
        plain = plain_fields(python_type)
        if plain is None:
            return None
        given = [(f.name, f.name, f.hint, f.default, f.default_factory) for f in plain]
    else:
        return None
    fields = [_field(*arguments, outer=(*outer, python_type)) for arguments in given]
    if any(f is None or f.name.startswith("__") for f in fields):
        return None
    return [f for f in fields if f is not None]


def _or_none(default: object) -> object:
    return msgspec.NODEFAULT if default is dataclasses.MISSING else default


def _field(
    name: str, written: str, hint: TypeHint, default: object, factory: object, *, outer: tuple[object, ...]
) -> _Field | None:
    column = _column_of(hint, outer)
    if column is None or (outer[1:] and written != name):
        return None
    twin_hint, dtype, nullable = column
    if callable(factory):
        return _Field(name, written, twin_hint, dtype, nullable, default, lambda: _fit(factory(), twin_hint))
    if default is not msgspec.NODEFAULT:
        try:
            default = _fit(default, twin_hint)
        except msgspec.ValidationError:
            return None  # nothing checks the defaults of Python's types; what does not fit has no column
    return _Field(name, written, twin_hint, dtype, nullable, default, factory)


def _fit(default: object, hint: TypeHint) -> object:
    """The default as a value that was read would be: a float even if written as int, for one."""
    return msgspec.convert(default, hint, from_attributes=True)


def _column_of(hint: object, outer: tuple[object, ...]) -> tuple[TypeHint, pl.DataType, bool] | None:
    """Twin hint, column type and whether null is allowed; `None` if the hint has no column form."""
    if typing.get_origin(hint) in (Union, UnionType):
        options = [option for option in typing.get_args(hint) if option is not NoneType]
        inner = _column_of(options[0], outer) if len(options) == 1 else None
        return None if inner is None else (inner[0] | None, inner[1], True)
    if hint is int:
        return int_within(pl.Int64), pl.Int64(), False
    if hint in (float, str, bool):
        return hint, _PLAIN_OF_HINT[hint], False
    if typing.get_origin(hint) is list:
        inner = _column_of(typing.get_args(hint)[0], outer)
        return None if inner is None else (list.__class_getitem__(inner[0]), pl.List(inner[1]), False)
    fields = _fields_of(hint, outer)
    if not fields:
        return None
    dtype = pl.Struct([pl.Field(f.name, f.dtype) for f in fields])
    twin = msgspec.defstruct(
        getattr(hint, "__name__", "Struct"), [f.definition() for f in fields], kw_only=True, gc=False, eq=False
    )
    return twin, dtype, False


def _takes_positional(python_type: type[object], names: list[str]) -> bool:
    parameters = inspect.signature(python_type).parameters.values()
    plain = all(p.kind is p.POSITIONAL_OR_KEYWORD for p in parameters)
    return plain and [p.name for p in parameters] == names
