"""Records of a topic by column, for sinks that write many rows at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import cast, overload

from hayase.connect.exceptions import DataError
from hayase.connect.model import SinkRecord
from hayase.connect.schema import ConnectSchema, SchemaType
from hayase.log.protocol import Int64Array

Column = list[object]
ReadColumn = Callable[[Column], Column]
"""Makes values of Connect of what a format holds for one field; raises `DataError`."""


class StructColumns:
    """Structs of one schema, or maps of the same names without one, by column; rows may have none.

    A column is read when it is asked for; the others are not looked at.

    Attributes:
        names: of the fields.
        schema: of all structs; `None`: they have none.
        present: rows that have a struct, ascending; `None`: all of them.

    Args:
        structs: of each row, as the format gives them.
        schema: see above.
        reader: what reads the column of a schema.

    Raises:
        DataError: there is no struct, something else is among them, the schema is of something else, or without a
            schema names differ.
    """

    def __init__(
        self,
        structs: Sequence[object],
        schema: ConnectSchema | None,
        reader: Callable[[ConnectSchema | None], ReadColumn],
    ) -> None:
        if schema is not None and schema.type is not SchemaType.STRUCT:
            raise DataError("NO_COLUMNS", f"the schema is of {schema.type}, not of structs")
        self.schema = schema
        self._count = len(structs)
        self._reader = reader
        self.present: list[int] | None = None
        if None in structs:
            self.present = [row for row, struct in enumerate(structs) if struct is not None]
            structs = [structs[row] for row in self.present]
        if set(map(type, structs)) != {dict}:
            raise DataError("NO_COLUMNS", "there is no struct, or something else beside structs")
        self._structs = cast("Sequence[Mapping[str, object]]", structs)
        names = self._structs[0].keys()
        if schema is not None:
            self.names = tuple(field.name for field in schema.fields)
        elif all(struct.keys() == names for struct in self._structs):
            self.names = tuple(names)
        else:
            raise DataError("NO_COLUMNS", "maps have other names than the first of them")

    def __len__(self) -> int:
        return self._count

    def column(self, name: str) -> Column:
        """The values of a field, of the rows that have a struct.

        Raises:
            DataError: a value does not fit its schema.
        """
        return self._reader(self.field_schema(name))(self._unread(name))

    def struct(self, name: str) -> StructColumns | None:
        """The columns of a field that is itself a struct; `None`: no row has one.

        Raises:
            DataError: as the constructor.
        """
        found = self._unread(name)
        if self.present is not None:
            by_row = dict(zip(self.present, found, strict=True))
            found = [by_row.get(row) for row in range(self._count)]
        if all(each is None for each in found):
            return None
        return StructColumns(found, self.field_schema(name), self._reader)

    def field_schema(self, name: str) -> ConnectSchema | None:
        """The schema of a field."""
        field = None if self.schema is None else self.schema.field(name)
        return None if field is None else field.schema

    def _unread(self, name: str) -> Column:
        return [struct.get(name) for struct in self._structs]


@dataclass(frozen=True, slots=True)
class SingleColumn:
    """Values of one schema that are no structs and no maps, of consecutive rows.

    Attributes:
        values: of each row; null where its bytes are.
        schema: of all values; `None`: they have none.

    Raises:
        DataError: a struct or a map is among them.
    """

    values: Column
    schema: ConnectSchema | None

    def __post_init__(self) -> None:
        if dict in set(map(type, self.values)):
            raise DataError("NO_COLUMNS", "a struct or a map is among the values")


def value_columns(
    values: Column, schema: ConnectSchema | None, reader: Callable[[ConnectSchema | None], ReadColumn]
) -> StructColumns | SingleColumn:
    """Values of one schema by column.

    Args:
        values: of each row, as the format gives them; `None` where the row is null.
        schema: of all values; `None`: they have none.
        reader: what reads the column of a schema.

    Raises:
        DataError: structs and others are mixed, or there are maps, or a value does not fit its schema.
    """
    structs = dict in set(map(type, values)) if schema is None else schema.type is SchemaType.STRUCT
    if structs:
        return StructColumns(values, schema, reader)
    filled = [value for value in values if value is not None]
    read = reader(schema)(filled)
    if len(filled) == len(values):
        return SingleColumn(read, schema)
    rest = iter(read)
    return SingleColumn([None if value is None else next(rest) for value in values], schema)


@dataclass(frozen=True, slots=True)
class RecordColumns:
    """Consecutive records of one partition.

    Attributes:
        topic: of them.
        partition: of them.
        offsets: of each.
        key: their keys; `None`: all of them are null.
        value: their values; `None`: all of them are null.
    """

    topic: str
    partition: int
    offsets: Int64Array
    key: StructColumns | SingleColumn | None
    value: StructColumns | None


class LazyRecords(Sequence[SinkRecord]):
    """Records that are made when one of them is asked for.

    Args:
        count: how many they are.
        make: makes them.
    """

    def __init__(self, count: int, make: Callable[[], Sequence[SinkRecord]]) -> None:
        self._count = count
        self._make = make
        self._made: Sequence[SinkRecord] | None = None

    def _records(self) -> Sequence[SinkRecord]:
        if self._made is None:
            self._made = self._make()
        return self._made

    def __len__(self) -> int:
        return self._count if self._made is None else len(self._made)

    @overload
    def __getitem__(self, index: int) -> SinkRecord: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[SinkRecord]: ...
    def __getitem__(self, index: int | slice) -> SinkRecord | Sequence[SinkRecord]:
        return self._records()[index]

    def __iter__(self) -> Iterator[SinkRecord]:
        return iter(self._records())
