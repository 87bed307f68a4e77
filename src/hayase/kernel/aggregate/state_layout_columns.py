"""Stored aggregates in columns: from the bytes of many rows to one series per stored value, and back."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from hayase.core.errors import StateError
from hayase.kernel.aggregate.built_in_numbers import BuiltIn, nulls_where
from hayase.kernel.aggregate.built_in_serde import BOOL_TAG, FLOAT_TAG, INT_TAG, NULL_TAG, AggregateSerde
from hayase.serde import LongSerde
from hayase.serde.arrow_bytes import split_fixed_width
from hayase.serde.protocol import BARE_FIELD, ColumnCodec, Serde
from hayase.serde.timestamped import NO_TIME, decode_timestamped_array, encode_timestamped

I64 = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Stored:
    """Rows of an aggregate's store.

    Attributes:
        times: of the rows, -1 where there is no row.
        values: one series per stored value, null where there is no row.
    """

    times: I64
    values: list[pl.Series]

    @property
    def absent(self) -> BoolArray:
        """Where there is no row."""
        absent: BoolArray = self.times == NO_TIME
        return absent

    def gather(self, rows: I64) -> Stored:
        """Some of the rows."""
        return Stored(self.times[rows], [series.gather(rows) for series in self.values])


class AggregateLayout(ABC):
    """The column form of an aggregate's stored bytes; the same bytes as in row form."""

    def read(self, raw: Sequence[bytes | None]) -> Stored:
        """The stored values of rows, `None` where there is none."""
        decoded = self.decode([row for row in raw if row is not None])
        if len(decoded.times) == len(raw):
            return decoded
        present = np.fromiter((row is not None for row in raw), np.bool_, len(raw))
        times = np.full(len(raw), NO_TIME, np.int64)
        times[present] = decoded.times
        there = pl.Series(present)
        at = pl.select(pl.when(there).then(there.cast(pl.Int64).cum_sum() - 1)).to_series()
        return Stored(times, [series.gather(at) for series in decoded.values])

    @abstractmethod
    def decode(self, raw: Sequence[bytes]) -> Stored:
        """The stored values of rows that are all there.

        Raises:
            StateError: the bytes are not those of this aggregate.
            SerializationError: the same.
        """

    @abstractmethod
    def encode(self, rows: Stored) -> Sequence[bytes | None]:
        """The bytes of rows that are all there; raises SerializationError for a value that cannot be stored."""


def aggregate_layout(serde: Serde, parts: Sequence[BuiltIn], *, timed: bool = True) -> AggregateLayout | None:
    """The layout of a store's value serde; `None` if it has no column form, or not that of these values.

    With `timed` a row begins with its timestamp (8 bytes, big-endian); else all that are there are read with the time
    0.
    """
    types = [dtype for part in parts for dtype in part.stored_types]
    if isinstance(serde, AggregateSerde):
        if any(isinstance(dtype, pl.String | pl.Binary | pl.Null) or dtype.is_nested() for dtype in types):
            return _VariableWidth(serde, types, timed=timed)
        return _FixedWidth(types, tagged=True, timed=timed)
    if type(serde) is LongSerde and types == [pl.Int64()]:
        return _FixedWidth(types, tagged=False, timed=timed)
    codec = serde.columns
    if codec is None or any(len(part.stored_names) > 1 for part in parts):
        return None
    names = [BARE_FIELD] if codec.schema.bare else [part.name for part in parts]
    given = dict(codec.schema.fields)
    if [given.get(name) for name in names] != types or len(given) != len(names):
        return None
    return _ByCodec(codec, names, timed=timed)


class _FixedWidth(AggregateLayout):
    """Numbers and truth values: time, if `timed`, then 8 bytes per value, each behind its tag if `tagged`."""

    def __init__(self, types: Sequence[pl.DataType], *, tagged: bool, timed: bool) -> None:
        self._types = types
        self._tagged = tagged
        self._timed = timed
        self._fractions = [isinstance(dtype, pl.Float32 | pl.Float64) for dtype in types]
        self._layout = self._dtype([">f8" if fraction else ">i8" for fraction in self._fractions])
        self._whole = self._dtype([">i8"] * len(types))

    def _dtype(self, kinds: Sequence[str]) -> np.dtype[Any]:
        fields: list[tuple[str, str]] = [("time", ">i8")] if self._timed else []
        for number, kind in enumerate(kinds):
            if self._tagged:
                fields.append((f"tag{number}", "u1"))
            fields.append((f"value{number}", kind))
        return np.dtype(fields)

    def decode(self, raw: Sequence[bytes]) -> Stored:
        data = b"".join(raw)
        if len(data) != len(raw) * self._layout.itemsize:
            raise _foreign()
        block = np.frombuffer(data, self._layout)
        whole = np.frombuffer(data, self._whole)
        times = block["time"].astype(np.int64) if self._timed else np.zeros(len(raw), np.int64)
        return Stored(times, [self._series(block, whole, number) for number in range(len(self._types))])

    def _series(self, block: npt.NDArray[Any], whole: npt.NDArray[Any], number: int) -> pl.Series:
        dtype, fraction = self._types[number], self._fractions[number]
        values = block[f"value{number}"].astype(np.float64 if fraction else np.int64)
        if not self._tagged:
            return pl.Series(values)
        tags = block[f"tag{number}"]
        expected = FLOAT_TAG if fraction else BOOL_TAG if isinstance(dtype, pl.Boolean) else INT_TAG
        if (tags == expected).all():
            return pl.Series(values).cast(dtype)
        if fraction:  # the row form may have kept a whole number
            values = np.where(tags == INT_TAG, whole[f"value{number}"].astype(np.float64), values)
            known = np.isin(tags, (NULL_TAG, INT_TAG, FLOAT_TAG))
        else:
            known = np.isin(tags, (NULL_TAG, expected))
        if not known.all():
            raise _foreign()
        return nulls_where(tags == NULL_TAG, pl.Series(values)).cast(dtype)

    def encode(self, rows: Stored) -> Sequence[bytes | None]:
        block = np.zeros(len(rows.times), self._layout)
        if self._timed:
            block["time"] = rows.times
        for number, series in enumerate(rows.values):
            fraction = self._fractions[number]
            values = series.cast(pl.Float64 if fraction else pl.Int64)
            numbers = values.fill_null(0).to_numpy()
            block[f"value{number}"] = np.where(np.isnan(numbers), np.nan, numbers) if fraction else numbers
            if self._tagged:
                tag = FLOAT_TAG if fraction else BOOL_TAG if isinstance(series.dtype, pl.Boolean) else INT_TAG
                block[f"tag{number}"] = tag if not series.null_count() else np.where(series.is_null(), NULL_TAG, tag)
        return split_fixed_width(block.tobytes(), self._layout.itemsize)


class _VariableWidth(AggregateLayout):
    """Texts, bytes, lists or records of fields are among the values: row by row."""

    def __init__(self, serde: AggregateSerde, types: Sequence[pl.DataType], *, timed: bool) -> None:
        self._serde = serde
        self._types = types
        self._timed = timed

    def decode(self, raw: Sequence[bytes]) -> Stored:
        times = np.zeros(len(raw), np.int64)
        if self._timed:
            times = np.frombuffer(b"".join([item[:8] for item in raw]), ">i8").astype(np.int64)
        rows = [self._serde.unpack(item[8:] if self._timed else item) for item in raw]
        columns = list(zip(*rows, strict=True)) or [()] * len(self._types)
        try:
            values = [pl.Series(column, dtype=dtype) for column, dtype in zip(columns, self._types, strict=True)]
        except (TypeError, pl.exceptions.PolarsError) as error:
            raise _foreign() from error
        return Stored(times, values)

    def encode(self, rows: Stored) -> Sequence[bytes | None]:
        packed = map(self._serde.pack, zip(*(series.to_list() for series in rows.values), strict=True))
        return encode_timestamped(rows.times, list(packed)) if self._timed else list(packed)


class _ByCodec(AggregateLayout):
    """By the column form of a serde that the user gave."""

    def __init__(self, codec: ColumnCodec, names: Sequence[str], *, timed: bool) -> None:
        self._codec = codec
        self._names = names
        self._timed = timed

    def decode(self, raw: Sequence[bytes]) -> Stored:
        data = pa.array(raw, pa.large_binary())
        times = np.zeros(len(raw), np.int64)
        if self._timed:
            times, data = decode_timestamped_array(data)
        decoded = self._codec.decode(data).checked()
        return Stored(times, [decoded.frame[name] for name in self._names])

    def encode(self, rows: Stored) -> Sequence[bytes | None]:
        frame = pl.DataFrame(dict(zip(self._names, rows.values, strict=True)))
        values = self._codec.encode(frame)
        return encode_timestamped(rows.times, values) if self._timed else values


def _foreign() -> StateError:
    return StateError(
        "FOREIGN_AGGREGATE",
        "what the store holds was written by another aggregate: were its fields or their types changed? "
        "Give the store another name, or reset the application",
    )
