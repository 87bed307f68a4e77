"""Keys in one column: their bytes, and numbers that stand for them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from hayase.kernel.frame.groups import I64, group_numbers
from hayase.serde.protocol import ColumnCodec


def key_bytes(keys: pl.Series, codec: ColumnCodec) -> list[bytes]:
    """The bytes of keys that are not null."""
    return codec.encode(codec.schema.unpacked(keys))  # type: ignore[return-value]


def keys_of(data: Sequence[bytes], codec: ColumnCodec) -> pl.Series:
    """The keys of bytes; raises SerializationError."""
    return codec.schema.packed(codec.decode_list(data).checked().frame)


def key_numbers(keys: pl.Series, codec: ColumnCodec) -> tuple[I64, int]:
    """A number for each key, equal for keys with equal bytes, and how many there are."""
    if keys.dtype.is_integer() or keys.dtype in (pl.String, pl.Binary, pl.Boolean):
        return group_numbers(keys)
    return group_numbers(pl.Series(key_bytes(keys, codec), dtype=pl.Binary))


def distinct_keys(keys: pl.Series, codec: ColumnCodec) -> tuple[I64, pl.Series]:
    """The number of each key, see `key_numbers`, and the key of each number."""
    numbers, count = key_numbers(keys, codec)
    any_row = np.empty(count, np.int64)
    any_row[numbers] = np.arange(len(keys))
    return numbers, keys.gather(any_row)
