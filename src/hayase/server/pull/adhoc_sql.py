"""Ad-hoc SQL: what pull queries cannot do, in the form that DuckDB takes, and checked.

DuckDB's own parser makes a syntax tree of it; only what that tree may have is allowed, and DuckDB runs the text that it
makes of the tree.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import duckdb

from hayase.server.pull.stores import AsOf
from hayase.sql.errors import ParseFailedError, StatementError
from hayase.sql.grammar.parser import bounded_tokens
from hayase.sql.grammar.tokens import tokens_of
from hayase.sql.types.times import parse_timestamp

_BEGINS = ("SELECT", "WITH")
_TABLE_FUNCTIONS = frozenset({"unnest"})
_REFUSED_FUNCTIONS = frozenset(
    {"current_setting", "getenv", "getvariable", "query", "query_table", "sql_auto_complete", "which_secret"}
)
_REFUSED_PREFIXES = ("duckdb_", "pg_", "pragma_", "read_", "has_", "txid_", "nextval", "currval", "write_log")
_REFUSED_NODES = frozenset({"SHOW_REF", "DELIM_GET", "PIVOT", "COLUMN_DATA"})
_AS_OF_EPOCH = re.compile(r"\s+AS\s+OF\s+EPOCH\s+(\d+)\s*;?\s*$", re.IGNORECASE)
_AS_OF_TIMESTAMP = re.compile(r"\s+AS\s+OF\s+TIMESTAMP\s+'([^']*)'\s*;?\s*$", re.IGNORECASE)


@dataclass(frozen=True)
class AdHocQuery:
    """A query for DuckDB.

    Attributes:
        text: what DuckDB executes.
        tables: names of the tables that it reads.
        uses_rowtime: whether the times of rows are asked for.
        as_of: when all tables are read as of; `None`: as they are now.
    """

    text: str
    tables: tuple[str, ...]
    uses_rowtime: bool
    as_of: AsOf | None = None


def is_candidate(text: str) -> bool:
    """Whether a text may be ad-hoc SQL: it begins as a query, and has no EMIT."""
    try:
        words = [token.upper() for token in tokens_of(text) if token.type not in ("TEXT", "QUOTED_IDENTIFIER")]
    except ParseFailedError:
        return False
    return bool(words) and words[0] in _BEGINS and "EMIT" not in words and words.count(";") <= 1


def read_adhoc(text: str) -> AdHocQuery:
    """A query in ksqlDB's spelling of names, checked.

    Raises:
        ParseFailedError: DuckDB does not understand it, or it is longer than a statement may be.
        StatementError: it has something that is not allowed.
    """
    text, as_of = _as_of(text)
    spelled = _spelled(text)
    with duckdb.connect(":memory:") as parser:
        tree = json.loads(_one(parser, "SELECT json_serialize_sql(?)", spelled))
        if tree.get("error"):
            raise ParseFailedError("SYNTAX_ERROR", f"{tree.get('error_message')}\nStatement: {text}", statement=text)
        if len(tree["statements"]) != 1:
            raise ParseFailedError("NOT_ONE_STATEMENT", "Expected exactly one statement")
        nodes = list(_nodes(tree))
        _check(nodes)
        made: str = _one(parser, "SELECT json_deserialize_sql(?::JSON)", json.dumps(tree))
    uses_rowtime = any("ROWTIME" in map(str, node.get("column_names") or ()) for node in nodes)
    return AdHocQuery(made, _tables(nodes), uses_rowtime, as_of)


def _as_of(text: str) -> tuple[str, AsOf | None]:
    """The text without AS OF, which stands at its end."""
    found = _AS_OF_EPOCH.search(text)
    if found is not None:
        return text[: found.start()], AsOf(epoch=int(found.group(1)))
    found = _AS_OF_TIMESTAMP.search(text)
    if found is None:
        return text, None
    try:
        return text[: found.start()], AsOf(time_ms=parse_timestamp(found.group(1)))
    except ValueError as error:
        raise StatementError("INVALID_TIMESTAMP", str(error), statement=text) from error


def _spelled(text: str) -> str:
    """The text with names as they count, in double quotes where they need them, and fields behind a dot."""
    parts, end = [], 0
    for token in bounded_tokens(text):
        assert token.start_pos is not None
        assert token.end_pos is not None
        parts.append(text[end : token.start_pos])
        end = token.end_pos
        match token.type:
            case "SEMICOLON":
                parts.append(" ")
            case "_ARROW":
                parts.append(".")
            case "IDENTIFIER":
                parts.append(token.upper())
            case "QUOTED_IDENTIFIER":
                name = token[1:-1].replace(token[0] * 2, token[0])
                parts.append('"' + name.replace('"', '""') + '"')
            case _:
                parts.append(str(token))
    return "".join(parts)


def _one(connection: duckdb.DuckDBPyConnection, query: str, argument: str) -> str:
    row = connection.execute(query, [argument]).fetchone()
    assert row is not None
    return str(row[0])


def _nodes(value: Any) -> Iterator[dict[str, Any]]:
    """All objects of a tree."""
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, dict):
            yield each
            waiting.extend(each.values())
        elif isinstance(each, list):
            waiting.extend(each)


def _check(nodes: list[dict[str, Any]]) -> None:
    """Refuse what reads anything but tables of the catalog."""
    for node in nodes:
        kind = node.get("type")
        if kind in _REFUSED_NODES:
            raise _refused(f"{kind} is not allowed")
        if kind == "BASE_TABLE" and (node.get("schema_name") or node.get("catalog_name")):
            raise _refused(f"{node.get('table_name')}: tables have no schema before their name")
        if kind == "TABLE_FUNCTION":
            name = str((node.get("function") or {}).get("function_name")).lower()
            if name not in _TABLE_FUNCTIONS:
                raise _refused(f"{name}() is not allowed behind FROM")
        name = str(node.get("function_name") or "").lower()
        if name in _REFUSED_FUNCTIONS or name.startswith(_REFUSED_PREFIXES):
            raise _refused(f"the function {name}() is not allowed")


def _tables(nodes: list[dict[str, Any]]) -> tuple[str, ...]:
    """Names of tables, without those that WITH defines."""
    defined = {
        str(entry.get("key")).upper() for node in nodes for entry in (node.get("cte_map") or {}).get("map") or ()
    }
    named = (str(node["table_name"]) for node in nodes if node.get("type") == "BASE_TABLE")
    return tuple(dict.fromkeys(name for name in named if name.upper() not in defined))


def _refused(message: str) -> StatementError:
    return StatementError("NOT_ALLOWED", f"{message}. Ad-hoc SQL reads tables of the catalog, and nothing else")
