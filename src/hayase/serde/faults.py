"""Faults of records: the one place where whatever a serde raises becomes a SerializationError.

Serdes may be of a user, and decoders of libraries raise what they like, a panic in Rust included. Tasks read and write
records through these functions, so that the exception handlers are asked about each such record. Let through is what is
no fault of a record: other errors of Hayase (a schema registry that is away, a missing setting), and what stops a
program.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl

from hayase.core.call_site import place_of
from hayase.core.errors import HayaseError, SerializationError
from hayase.serde.protocol import ColumnCodec, Decoded, Serde, Side

_CANNOT_BE_READ = "the {} cannot be read"
_PANIC = "PanicException"  # of every extension in Rust its own class, and none of them an Exception


def is_fault(error: BaseException) -> bool:
    """Whether an error may come from a record: an Exception that is no other error of Hayase, or a panic in Rust."""
    if isinstance(error, HayaseError):
        return isinstance(error, SerializationError)
    return isinstance(error, Exception) or type(error).__name__ == _PANIC


def unreadable(error: BaseException, serde: object, data: bytes | None) -> SerializationError:
    """The error for bytes on which a decoder raised; raises the error itself if it is no fault of a record."""
    if isinstance(error, SerializationError):
        return error
    if not is_fault(error):
        raise error
    unreadable_error = SerializationError(
        "DESERIALIZER_FAILED",
        f"{type(serde).__name__} failed on {0 if data is None else len(data)} bytes: {(data or b'')[:60]!r}: "
        f"{said(error)}",
    )
    unreadable_error.__cause__ = error
    return unreadable_error


def of_sides(keys: Mapping[int, Exception], values: Mapping[int, Exception]) -> dict[int, Exception]:
    """The errors of the records of a batch by position, each saying whether the key or the value cannot be read."""
    return {
        **{row: _of_side("value", error) for row, error in values.items()},
        **{row: _of_side("key", error) for row, error in keys.items()},
    }


def side_of(error: BaseException) -> Side:
    """Whether an error is about a key or a value, of those that `of_sides` gave; others count as of values."""
    return "key" if getattr(error, "message", "").startswith(_CANNOT_BE_READ.format("key")) else "value"


def _of_side(side: Side, error: Exception) -> Exception:
    if not isinstance(error, SerializationError):
        return error
    message = f"{_CANNOT_BE_READ.format(side)}: {error.message}"
    named = SerializationError(error.condition, message, **error.context)
    named.__cause__ = error.__cause__
    return named.with_traceback(error.__traceback__)


def unwritable(error: BaseException, serde: object, value: object) -> SerializationError:
    """The error for a value on which an encoder raised; raises the error itself if it is no fault of a record."""
    if isinstance(error, SerializationError):
        return error
    if not is_fault(error):
        raise error
    unwritable_error = SerializationError(
        "SERIALIZER_FAILED",
        f"{type(serde).__name__} failed on {shown(value)} ({type(value).__name__}): {said(error)}",
    )
    unwritable_error.__cause__ = error
    return unwritable_error


def shown(value: object, limit: int = 200) -> str:
    """The beginning of a value's `repr`, for messages; never raises."""
    try:
        return f"{value!r:.{limit}}"
    except Exception as error:  # a class of a user; an int of more digits than Python prints; too deep a list
        return f"<{type(value).__name__}, whose repr fails: {type(error).__name__}>"


def text_of(error: BaseException) -> str:
    """The text of an error, for messages and logs.

    Never raises, and has no half of a surrogate pair, which no log can write.
    """
    try:
        return str(error).encode(errors="backslashreplace").decode()
    except Exception:  # a class of a user
        return ""


def said(error: BaseException) -> str:
    """Class and text of an error, behind the place in the user's program that raised it, for messages; never raises."""
    text, place = text_of(error), place_of(error)
    what = f"{type(error).__name__}: {text}" if text else type(error).__name__
    return what if place is None else f"{place}: {what}"


def read_rows(serde: Serde, data: Sequence[bytes | None]) -> tuple[list[object], dict[int, SerializationError]]:
    """The values of many bytes, `None` where there is none, and the errors of the bad ones by position.

    One call of the serde as long as nothing is wrong.
    """
    try:
        deserialized = serde.deserialize_many(data)
        if len(deserialized) == len(data):
            return deserialized, {}
    except BaseException as error:
        if not is_fault(error):
            raise
    values: list[object] = []
    bad: dict[int, SerializationError] = {}
    for row, item in enumerate(data):
        try:
            values.append(None if item is None else serde.from_bytes(item))
        except BaseException as error:
            bad[row] = unreadable(error, serde, item)
            values.append(None)
    return values, bad


def read_columns(
    serde: object, codec: ColumnCodec, data: Sequence[bytes | None], fields: frozenset[str] | None = None
) -> Decoded:
    """Columns of many bytes, as `ColumnCodec.decode_list` gives them.

    Where that raises, the culprits are found by halves.

    Args:
        serde: whose column form `codec` is, for errors.
        codec: reads.
        data: the bytes.
        fields: those that are wanted; `None`: all.
    """
    try:
        decoded = codec.decode_list(data, fields)
        if decoded.frame.height != len(data):
            raise ValueError(f"{type(codec).__name__} made {decoded.frame.height} values of {len(data)}")
    except BaseException as error:
        if len(data) == 0:
            raise
        if len(data) > 1:
            if not is_fault(error):
                raise
            middle = len(data) // 2
            first, second = (read_columns(serde, codec, part, fields) for part in (data[:middle], data[middle:]))
            return _joined(first, second, middle)
        nothing = codec.decode_list([None], fields)
        null = pl.Series(nothing.null.name, [False], dtype=pl.Boolean)
        return Decoded(nothing.frame, null, [(0, unreadable(error, serde, data[0]))])
    if decoded.bad:
        decoded.bad = [(row, unreadable(error, serde, data[row])) for row, error in decoded.bad]
    return decoded


def _joined(first: Decoded, second: Decoded, at: int) -> Decoded:
    height = first.frame.height + second.frame.height
    frame = pl.concat([first.frame, second.frame]) if first.frame.width else pl.DataFrame(height=height)
    bad = [*first.bad, *((row + at, error) for row, error in second.bad)]
    return Decoded(frame, pl.concat([first.null, second.null]), bad)
