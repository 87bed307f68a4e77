"""Rows of stores as text: a table, or JSON lines; and what a user gives as a key or a time."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from enum import StrEnum

import msgspec

from hayase.core.errors import ConfigError, SerializationError
from hayase.core.records import Windowed
from hayase.core.time import to_iso
from hayase.query.stores import StoreRow
from hayase.serde.bare import BytesSerde, StringSerde
from hayase.serde.json_serde import JsonSerde
from hayase.serde.protocol import Serde


class Output(StrEnum):
    """How rows are printed."""

    TABLE = "table"
    JSON = "json"


def row_fields(row: StoreRow) -> dict[str, object]:
    """A row as plain data; a windowed key as key and window, in milliseconds."""
    fields: dict[str, object] = {}
    if isinstance(row.key, Windowed):
        fields["key"] = row.key.key
        fields["window"] = {"start": row.key.window.start_ms, "end": row.key.window.end_ms}
    else:
        fields["key"] = row.key
    fields["value"] = row.value
    if row.timestamp_ms is not None:
        fields["timestamp"] = row.timestamp_ms
    return fields


def lines_of(rows: Iterable[Mapping[str, object]], output: Output) -> list[str]:
    """The lines that show rows of equal fields.

    Example:
        >>> rows = [{"key": "ada", "value": {"n": 2}, "timestamp": 0}]
        >>> lines_of(rows, Output.JSON)
        ['{"key":"ada","value":{"n":2},"timestamp":0}']
        >>> for line in lines_of(rows, Output.TABLE):
        ...     print(line)
        key  value    timestamp
        ada  {"n":2}  1970-01-01T00:00:00.000Z
    """
    if output is Output.JSON:
        return [_json(row) for row in rows]
    shown = [{name: _cell(name, value) for name, value in row.items()} for row in rows]
    names = list(dict.fromkeys(name for row in shown for name in row))
    return _aligned([names, *([row.get(name, "") for name in names] for row in shown)]) if shown else []


def on_one_line(text: str) -> str:
    r"""A text in which control characters are escapes: data can neither make up lines nor steer the terminal.

    Example:
        >>> on_one_line("17\x1b[2J\n18 ü")
        '17\\x1b[2J\\n18 ü'
    """
    return text if text.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def parse_key(serde: Serde, text: str) -> object:
    """The key that a user means: text for text keys; else a number, or JSON.

    Raises:
        ConfigError: `INVALID_KEY`.

    Example:
        >>> from hayase.serde.serdes import Serdes
        >>> parse_key(Serdes.string(), "42"), parse_key(Serdes.long(), "42"), parse_key(Serdes.json(), '{"a": 1}')
        ('42', 42, {'a': 1})
    """
    if isinstance(serde, StringSerde):
        return text
    if isinstance(serde, BytesSerde):
        return bytes.fromhex(text[2:]) if text.startswith("0x") else text.encode()
    candidates = [json.dumps(text)] if not _is_json(text) else [text, json.dumps(text)]
    for candidate in candidates:
        try:
            key = serde.from_bytes(candidate.encode()) if isinstance(serde, JsonSerde) else json.loads(candidate)
            serde.to_bytes(key)
            return key
        except (SerializationError, TypeError, ValueError):
            continue
    raise ConfigError(
        "INVALID_KEY",
        f"{text!r} is no key of this store: its keys are those of {type(serde).__name__}; give text, a number or JSON",
    )


def parse_time(option: str, text: str) -> int:
    """Milliseconds since 1970 of ISO 8601 text (UTC unless it names a zone) or of a number that is that already.

    Raises:
        ConfigError: `INVALID_TIME`.

    Example:
        >>> parse_time("--since", "1970-01-01T00:00:01"), parse_time("--since", "1000")
        (1000, 1000)
    """
    if text.lstrip("-").isdecimal():
        return int(text)
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        raise ConfigError(
            "INVALID_TIME",
            f"{option} {text!r} is no time; give e.g. 2026-11-21T18:00:00+00:00, or milliseconds since 1970",
        ) from None
    return round((when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp() * 1000)


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def _json(value: object) -> str:
    return msgspec.json.encode(value, enc_hook=_plain).decode()


def _plain(value: object) -> str:
    return repr(value)


def _cell(name: str, value: object) -> str:
    if name.startswith("timestamp") and isinstance(value, int):
        return _time(value)
    if name == "window" and isinstance(value, dict):
        return f"{_time(value['start'])} to {_time(value['end'])}"
    if isinstance(value, str):
        return on_one_line(value)
    if isinstance(value, bytes):
        return f"0x{value.hex()}"
    return _json(value)


def _time(time_ms: int) -> str:
    try:
        return to_iso(time_ms).replace("+00:00", "Z")
    except (ValueError, OverflowError, OSError):
        return str(time_ms)


def _aligned(lines: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines]
