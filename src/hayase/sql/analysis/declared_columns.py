"""The columns that a CREATE STREAM or TABLE declares."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hayase.sql.ast.statements import ColumnDefinition, ColumnKind
from hayase.sql.catalog.catalog import Catalog
from hayase.sql.catalog.sources import SYSTEM_COLUMNS, HeaderColumn
from hayase.sql.errors import StatementError, located
from hayase.sql.formats.columns import Column
from hayase.sql.types.sql_types import BYTES, STRING, ArrayType, SqlType, StructType, quoted_name

HEADERS_TYPE = ArrayType(StructType((("KEY", STRING), ("VALUE", BYTES))))


@dataclass(frozen=True)
class DeclaredColumns:
    """The columns of a declaration, by what they are of.

    Attributes:
        key: of the key.
        value: of the value.
        headers: of the headers.
        names: all, in the order of the text.
    """

    key: tuple[Column, ...]
    value: tuple[Column, ...]
    headers: tuple[HeaderColumn, ...]
    names: tuple[str, ...]


def declared_columns(definitions: Sequence[ColumnDefinition], catalog: Catalog) -> DeclaredColumns:
    """The columns of a declaration, custom types replaced.

    Raises:
        StatementError: a name is reserved or there twice, a type unknown, a header column of a wrong type.
    """
    key: list[Column] = []
    value: list[Column] = []
    headers: list[HeaderColumn] = []
    for definition in definitions:
        _check_name(definition)
        with located(definition.location):
            type_ = catalog.resolve_type(definition.type)
        match definition.kind:
            case ColumnKind.KEY | ColumnKind.PRIMARY_KEY:
                key.append(Column(definition.name, type_))
            case ColumnKind.VALUE:
                value.append(Column(definition.name, type_))
            case _:
                headers.append(_header(definition, type_, headers))
    names = tuple(definition.name for definition in definitions)
    twice = [name for name in dict.fromkeys(names) if names.count(name) > 1]
    if twice:
        *_, last = (definition for definition in definitions if definition.name == twice[0])
        raise StatementError(
            "DUPLICATE_COLUMN",
            f"Duplicate column names: {', '.join(map(quoted_name, twice))}",
            location=last.location,
        )
    return DeclaredColumns(tuple(key), tuple(value), tuple(headers), names)


def _check_name(definition: ColumnDefinition) -> None:
    if definition.name in SYSTEM_COLUMNS:
        raise StatementError(
            "RESERVED_NAME",
            f"'{definition.name}' is a reserved column name. You cannot use it as a name for a column.",
            location=definition.location,
        )


def _header(definition: ColumnDefinition, type_: SqlType, others: Sequence[HeaderColumn]) -> HeaderColumn:
    is_all = definition.kind is ColumnKind.HEADERS
    what, expected = ("HEADERS", HEADERS_TYPE) if is_all else (f"HEADER('{definition.header_key}')", BYTES)
    if type_ != expected:
        raise StatementError(
            "INVALID_HEADER_COLUMN",
            f"Invalid type for {what} column: expected {expected}, got {type_}",
            location=definition.location,
        )
    key = None if is_all else definition.header_key
    if any(other.key == key for other in others):
        raise StatementError(
            "INVALID_HEADER_COLUMN", f"Schema already contains a {what} column.", location=definition.location
        )
    return HeaderColumn(definition.name, type_, key)
