"""Requests and answers of the REST interface, without the connection."""

from __future__ import annotations

import json
import re
import ssl
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from hayase.client.errors import SqlServerError, error_of

STREAMED_ROWS = "application/vnd.ksql.v1+json"
DEFAULT_URL = "http://127.0.0.1:8088"
_QUOTED = re.compile(r"`((?:[^`]|``)*)` ")


def trusted(tls: ssl.SSLContext | None) -> ssl.SSLContext:
    """What a client trusts: by default the authorities of the system, or those of the file `SSL_CERT_FILE` names."""
    return ssl.create_default_context() if tls is None else tls


@dataclass(frozen=True, slots=True)
class Row:
    """One row of an answer: values by name, or by place.

    Attributes:
        names: of the columns.
        values: in the same order.
        tombstone: the row of this key is deleted; only the columns of the key are known.

    Example:
        >>> row = Row(("ID", "V"), ("a", 1))
        >>> row["V"], row[0], row.to_dict()
        (1, 'a', {'ID': 'a', 'V': 1})
    """

    names: tuple[str, ...]
    values: tuple[Any, ...]
    tombstone: bool = False

    def __getitem__(self, column: str | int) -> Any:
        if isinstance(column, int):
            return self.values[column]
        try:
            return self.values[self.names.index(column)]
        except ValueError:
            raise KeyError(f"there is no column {column!r}; there are {', '.join(self.names)}") from None

    def __len__(self) -> int:
        return len(self.values)

    def to_dict(self) -> dict[str, Any]:
        """Values by name."""
        return dict(zip(self.names, self.values, strict=True))


@dataclass(frozen=True, slots=True)
class Header:
    """What comes before the rows.

    Attributes:
        query_id: to end the query by.
        schema: the columns as SQL.
        names: of the columns.
        types: of the columns, as SQL.
    """

    query_id: str
    schema: str
    names: tuple[str, ...]
    types: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FinalMessage:
    """What comes behind the rows: `Limit Reached`, `Query Completed`."""

    text: str


def statement_body(
    text: str, properties: Mapping[str, object], variables: Mapping[str, str], sequence_number: int | None
) -> dict[str, Any]:
    """The body of a request to `/ksql`."""
    body: dict[str, Any] = {"ksql": text, "streamsProperties": dict(properties), "sessionVariables": dict(variables)}
    if sequence_number is not None:
        body["commandSequenceNumber"] = sequence_number
    return body


def query_body(text: str, properties: Mapping[str, object], variables: Mapping[str, str]) -> dict[str, Any]:
    """The body of a request to `/query-stream`."""
    return {"sql": text, "properties": dict(properties), "sessionVariables": dict(variables)}


def inserts_body(target: str, rows: Iterable[Mapping[str, Any]], properties: Mapping[str, object]) -> bytes:
    """The body of a request to `/inserts-stream`: a line for the target, and one for each row."""
    lines = [{"target": target, "properties": dict(properties)}, *(dict(row) for row in rows)]
    return b"".join(json.dumps(line, default=_plain).encode() + b"\n" for line in lines)


def _plain(value: Any) -> Any:
    if isinstance(value, Decimal):
        return str(value)  # a number would lose digits
    raise TypeError(f"{type(value).__name__} has no JSON form: {value!r}")


def acknowledged(lines: Iterable[str]) -> int:
    """How many rows were written, by the answer of `/inserts-stream`.

    Raises:
        SqlServerError: a row was refused; those before it are written.
    """
    count = 0
    for line in lines:
        if line.strip():
            answer = json.loads(line)
            if answer.get("status") != "ok":
                raise error_of(answer, 400)
            count += 1
    return count


def last_sequence_number(answers: Sequence[Mapping[str, Any]], before: int | None) -> int | None:
    """The number of the last command that a request made."""
    numbers = [answer["commandSequenceNumber"] for answer in answers if "commandSequenceNumber" in answer]
    return numbers[-1] if numbers else before


def read_line(line: str, header: Header | None) -> Header | Row | FinalMessage | None:
    """What a line of an array of StreamedRow is; `None` for what is only there to keep the connection.

    Raises:
        SqlServerError: it is an error, or no such line.
    """
    text = line.strip().removeprefix("[").removesuffix(",").removesuffix("]").strip()
    if not text:
        return None
    try:
        item = json.loads(text, parse_float=_number)
    except json.JSONDecodeError as error:
        raise SqlServerError("NOT_UNDERSTOOD", f"the server sent what is no row: {text[:200]}") from error
    match item:
        case {"header": {"schema": schema, **rest}}:
            columns = split_schema(schema)
            names, types = tuple(name for name, _ in columns), tuple(type_ for _, type_ in columns)
            return Header(str(rest.get("queryId") or ""), schema, names, types)
        case {"row": {"columns": values, **rest}} if header is not None:
            return Row(header.names, tuple(values), bool(rest.get("tombstone")))
        case {"finalMessage": message}:
            return FinalMessage(message)
        case {"errorMessage": error}:
            raise error_of(error, 500)
        case {"@type": _, "message": _}:
            raise error_of(item, 500)
    return None


def _number(text: str) -> float | Decimal:
    """A number with a point: a decimal where a double could not hold it."""
    number = float(text)
    return number if repr(number) == text or "e" in text.lower() else Decimal(text)


def split_schema(schema: str) -> list[tuple[str, str]]:
    """Names and types of a schema; KEY is left out.

    Example:
        >>> split_schema("`ID` INTEGER KEY, `S` STRUCT<`A` STRING, `B` INTEGER>")
        [('ID', 'INTEGER'), ('S', 'STRUCT<`A` STRING, `B` INTEGER>')]
    """
    columns = []
    for part in _split(schema):
        found = _QUOTED.match(part)
        if found is None:
            raise SqlServerError("NOT_UNDERSTOOD", f"the server sent a schema that cannot be read: {schema}")
        columns.append((found.group(1).replace("``", "`"), part[found.end() :].removesuffix(" KEY")))
    return columns


def _split(schema: str) -> list[str]:
    """The columns of a schema: commas inside of quotes and brackets do not count."""
    parts, depth, begin, quoted = [], 0, 0, False
    for place, character in enumerate(schema):
        if character == "`":
            quoted = not quoted
        elif not quoted and character in "<(":
            depth += 1
        elif not quoted and character in ">)":
            depth -= 1
        elif character == "," and not quoted and depth == 0:
            parts.append(schema[begin:place].strip())
            begin = place + 1
    last = schema[begin:].strip()
    return [*parts, last] if last else parts
