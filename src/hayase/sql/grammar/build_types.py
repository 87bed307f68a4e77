"""Types from parse trees."""

from __future__ import annotations

from lark import Token

from hayase.sql.errors import ParseFailedError
from hayase.sql.grammar.limits import MAX_NESTING
from hayase.sql.grammar.names import Node, branch, branches, integer_of, leaf, limited, location_of, name_of
from hayase.sql.types.sql_types import (
    BIGINT,
    BOOLEAN,
    BYTES,
    DATE,
    DOUBLE,
    INTEGER,
    STRING,
    TIME,
    TIMESTAMP,
    ArrayType,
    DecimalType,
    MapType,
    NamedType,
    SqlType,
    StructType,
)

_PLAIN: dict[str, SqlType] = {
    "BOOLEAN": BOOLEAN,
    "INT": INTEGER,
    "INTEGER": INTEGER,
    "BIGINT": BIGINT,
    "DOUBLE": DOUBLE,
    "VARCHAR": STRING,
    "STRING": STRING,
    "BYTES": BYTES,
    "DATE": DATE,
    "TIME": TIME,
    "TIMESTAMP": TIMESTAMP,
}


def build_type(node: Node, depth: int = 0) -> SqlType:
    """The type that a tree stands for.

    Raises:
        ParseFailedError: nested too deeply, or a DECIMAL that cannot be.
    """
    if depth >= MAX_NESTING:
        raise ParseFailedError(
            "TOO_DEEP", f"The type has more than {MAX_NESTING} levels, which is the limit", location=location_of(node)
        )
    match node.data:
        case "array_type":
            return ArrayType(build_type(branch(node), depth + 1))
        case "map_type":
            return MapType(build_type(branch(node), depth + 1), build_type(branch(node, 1), depth + 1))
        case "struct_type":
            fields = [(name_of(branch(field)), build_type(branch(field, 1), depth + 1)) for field in branches(node)]
            struct = StructType(limited(fields, "fields of a STRUCT", location_of(node)))
            if struct.repeated:
                problem = f"Duplicate field names found in STRUCT: {struct.repeated}"
                raise ParseFailedError("DUPLICATE_FIELD", problem, location=location_of(node))
            return struct
        case "decimal_type":
            return _decimal(node, integer_of(leaf(node)), integer_of(leaf(node, 1)))
    return _named(node)


def _decimal(node: Node, precision: int, scale: int) -> DecimalType:
    if precision < 1:
        problem = f"DECIMAL precision must be >= 1: DECIMAL({precision},{scale})"
    elif scale > precision:
        problem = f"DECIMAL precision must be >= scale: DECIMAL({precision},{scale})"
    else:
        return DecimalType(precision, scale)
    raise ParseFailedError("INVALID_TYPE", problem, location=location_of(node))


def _named(node: Node) -> SqlType:
    parameters = [str(child) for child in node.children if isinstance(child, Token)]
    token = leaf(branch(node))
    name = name_of(branch(node))
    plain = None if token.type == "QUOTED_IDENTIFIER" and name != name.upper() else _PLAIN.get(name)
    if plain is None and parameters:
        raise ParseFailedError(
            "INVALID_TYPE",
            f"Cannot resolve unknown type: {name}({', '.join(parameters)}). Only DECIMAL has parameters.",
            location=location_of(node),
        )
    return plain or NamedType(name)
