"""SQL types as data; their text is SQL."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass


def quoted_name(name: str) -> str:
    """A name in back quotes, as ksqlDB shows it."""
    return "`" + name.replace("`", "``") + "`"


@dataclass(frozen=True, slots=True)
class SqlType:
    """Base of all types; `str` is the type as SQL."""


@dataclass(frozen=True, slots=True)
class BooleanType(SqlType):
    """BOOLEAN."""

    def __str__(self) -> str:
        return "BOOLEAN"


@dataclass(frozen=True, slots=True)
class IntegerType(SqlType):
    """INTEGER, 32 bits."""

    def __str__(self) -> str:
        return "INTEGER"


@dataclass(frozen=True, slots=True)
class BigintType(SqlType):
    """BIGINT, 64 bits."""

    def __str__(self) -> str:
        return "BIGINT"


@dataclass(frozen=True, slots=True)
class DoubleType(SqlType):
    """DOUBLE."""

    def __str__(self) -> str:
        return "DOUBLE"


@dataclass(frozen=True, slots=True)
class DecimalType(SqlType):
    """DECIMAL(precision, scale); the parser has checked 1 <= precision and 0 <= scale <= precision."""

    precision: int
    scale: int

    def __str__(self) -> str:
        return f"DECIMAL({self.precision}, {self.scale})"


@dataclass(frozen=True, slots=True)
class StringType(SqlType):
    """VARCHAR, which is also called STRING."""

    def __str__(self) -> str:
        return "STRING"


@dataclass(frozen=True, slots=True)
class BytesType(SqlType):
    """BYTES."""

    def __str__(self) -> str:
        return "BYTES"


@dataclass(frozen=True, slots=True)
class DateType(SqlType):
    """DATE."""

    def __str__(self) -> str:
        return "DATE"


@dataclass(frozen=True, slots=True)
class TimeType(SqlType):
    """TIME, in milliseconds."""

    def __str__(self) -> str:
        return "TIME"


@dataclass(frozen=True, slots=True)
class TimestampType(SqlType):
    """TIMESTAMP, in milliseconds, UTC."""

    def __str__(self) -> str:
        return "TIMESTAMP"


@dataclass(frozen=True, slots=True)
class ArrayType(SqlType):
    """ARRAY<item>."""

    item: SqlType

    def __str__(self) -> str:
        return f"ARRAY<{self.item}>"


@dataclass(frozen=True, slots=True)
class MapType(SqlType):
    """MAP<key, value>."""

    key: SqlType
    value: SqlType

    def __str__(self) -> str:
        return f"MAP<{self.key}, {self.value}>"


@dataclass(frozen=True, slots=True)
class StructType(SqlType):
    """STRUCT<name type, …>."""

    fields: tuple[tuple[str, SqlType], ...]

    @property
    def repeated(self) -> str:
        """The names that more than one field has, as SQL; empty in every type that a statement gets."""
        names = [name for name, _ in self.fields]
        counts = Counter(names) if len(dict(self.fields)) < len(names) else {}
        return ", ".join(quoted_name(name) for name, count in counts.items() if count > 1)

    def __hash__(self) -> int:
        return hash((len(self.fields), self.fields[:4]))  # thousands of fields would be hashed again for each use

    def __str__(self) -> str:
        fields = ", ".join(f"{quoted_name(name)} {type_}" for name, type_ in self.fields)
        return f"STRUCT<{fields}>" if fields else "STRUCT< >"


@dataclass(frozen=True, slots=True)
class NamedType(SqlType):
    """A type by the name that CREATE TYPE gave it; the analysis replaces it."""

    name: str

    def __str__(self) -> str:
        return quoted_name(self.name)


BOOLEAN = BooleanType()
INTEGER = IntegerType()
BIGINT = BigintType()
DOUBLE = DoubleType()
STRING = StringType()
BYTES = BytesType()
DATE = DateType()
TIME = TimeType()
TIMESTAMP = TimestampType()
