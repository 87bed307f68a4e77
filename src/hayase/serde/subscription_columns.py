"""The column forms of what travels between the two sides of a foreign-key join."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl
import pyarrow as pa

from hayase.core.errors import SerializationError
from hayase.serde.protocol import ColumnCodec, Decoded, Schema
from hayase.serde.subscriptions import Answer, Instruction, Subscription, packed, unpacked

INSTRUCTION, DIGEST, PARTITION, PRIMARY_KEY, GONE, RIGHT = (
    "instruction", "digest", "partition", "primary_key", "gone", "right.",
)  # fmt: skip
"""Fields of subscriptions (`instruction` to `primary_key`) and of answers (`digest`, `partition`, `gone`: there is no
right row, and the right value's fields behind `right.`)."""


@dataclass(frozen=True, slots=True)
class AnswerSchema(Schema):
    """The schema of answers; `right` is that of right values."""

    right: Schema | None = None


def subscription_schema(key: Schema) -> Schema:
    """The schema of subscriptions of left rows with such keys."""
    kept = key.fields[0][1] if key.bare else pl.Struct([pl.Field(name, dtype) for name, dtype in key.fields])
    head = ((INSTRUCTION, pl.Int8()), (DIGEST, pl.Binary()), (PARTITION, pl.Int32()))
    return Schema((*head, (PRIMARY_KEY, kept)), python_type=dict)


def answer_schema(right: Schema) -> AnswerSchema:
    """The schema of answers with such right values."""
    head = ((DIGEST, pl.Binary()), (PARTITION, pl.Int32()), (GONE, pl.Boolean()))
    fields = (*head, *((RIGHT + name, dtype) for name, dtype in right.fields))
    return AnswerSchema(fields, python_type=dict, right=right)


class _Codec(ColumnCodec):
    def __init__(self, inner: ColumnCodec) -> None:
        self._inner = inner

    @abstractmethod
    def _fields(self, numbers: list[int], rest: Decoded) -> Sequence[pl.Series]:
        """The other fields, of the first numbers and of what the inner codec read."""

    def decode(self, data: pa.Array, fields: frozenset[str] | None = None) -> Decoded:
        """See ColumnCodec."""
        return self.decode_list(data.to_pylist(), fields)

    def decode_list(self, values: Sequence[bytes | None], fields: frozenset[str] | None = None) -> Decoded:
        """See ColumnCodec."""
        bad: dict[int, Exception] = {}
        rows: list[tuple[int, int, bytes | None, bytes | None]] = []
        for row, data in enumerate(values):
            try:
                rows.append(_NOTHING if data is None else unpacked(data))
            except SerializationError as error:
                bad[row] = error
                rows.append(_NOTHING)
        numbers, partitions, digests, rest = (list(column) for column in zip(*rows, strict=True)) if rows else _EMPTY
        inner = self._inner.decode_list(rest)
        frame = pl.DataFrame(
            [
                pl.Series(DIGEST, digests, dtype=pl.Binary),
                pl.Series(PARTITION, partitions, dtype=pl.Int32),
                *self._fields(numbers, inner),
            ]
        )
        null = pl.Series([data is None for data in values], dtype=pl.Boolean)
        return Decoded(frame.select(self.schema.names), null, sorted({**dict(inner.bad), **bad}.items()))

    def _encoded(
        self, frame: pl.DataFrame, numbers: Sequence[int], rest: Sequence[bytes | None], null: pl.Series | None
    ) -> list[bytes | None]:
        columns = frame[PARTITION].to_list(), frame[DIGEST].to_list()
        encoded: list[bytes | None] = list(map(packed, numbers, *columns, rest))
        if null is None or not null.any():
            return encoded
        return [None if gone else data for data, gone in zip(encoded, null.to_list(), strict=True)]


_NOTHING = (0, 0, None, None)
_EMPTY: tuple[list[int], list[int], list[bytes | None], list[bytes | None]] = ([], [], [], [])


class SubscriptionCodec(_Codec):
    """The column form of SubscriptionSerde; `inner` is that of primary keys."""

    @property
    def schema(self) -> Schema:
        """See `subscription_schema`."""
        return subscription_schema(self._inner.schema)

    def _fields(self, numbers: list[int], rest: Decoded) -> Sequence[pl.Series]:
        keys = self._inner.schema.packed(rest.frame).alias(PRIMARY_KEY)
        return [pl.Series(INSTRUCTION, numbers, dtype=pl.Int8), keys]

    def encode(self, frame: pl.DataFrame, null: pl.Series | None = None) -> list[bytes | None]:
        """See ColumnCodec."""
        return self.encoded(frame, self.key_bytes(frame[PRIMARY_KEY]), null)

    def key_bytes(self, keys: pl.Series) -> list[bytes | None]:
        """The bytes of primary keys."""
        return self._inner.encode_packed(keys)

    def encoded(
        self, frame: pl.DataFrame, keys: Sequence[bytes | None], null: pl.Series | None = None
    ) -> list[bytes | None]:
        """As `encode`, where the bytes of the primary keys are known."""
        return self._encoded(frame, frame[INSTRUCTION].to_list(), keys, null)

    def to_python(self, frame: pl.DataFrame, null: pl.Series | None = None) -> list[object]:
        """Subscriptions."""
        gone = [False] * frame.height if null is None else null.to_list()
        rows = zip(*(frame[name].to_list() for name in self.schema.names), gone, strict=True)
        return [None if none else Subscription(Instruction(n), d, p, key) for n, d, p, key, none in rows]

    def from_python(self, values: Sequence[object]) -> tuple[pl.DataFrame, pl.Series]:
        """See ColumnCodec."""
        nothing = Subscription(Instruction.UNSUBSCRIBE, None, 0, None)
        rows = [nothing if value is None else value for value in values]
        columns = list(zip(*rows, strict=True)) or [()] * 4
        frame = [pl.Series(n, list(c), dtype=t) for (n, t), c in zip(self.schema.fields, columns, strict=True)]
        return pl.DataFrame(frame), pl.Series([value is None for value in values], dtype=pl.Boolean)


class AnswerCodec(_Codec):
    """The column form of AnswerSerde; `inner` is that of right values."""

    @property
    def schema(self) -> AnswerSchema:
        """See `answer_schema`."""
        return answer_schema(self._inner.schema)

    def _fields(self, numbers: list[int], rest: Decoded) -> Sequence[pl.Series]:
        return [rest.null.alias(GONE), *rest.frame.select(pl.all().name.prefix(RIGHT)).get_columns()]

    def encode(self, frame: pl.DataFrame, null: pl.Series | None = None) -> list[bytes | None]:
        """See ColumnCodec."""
        values = frame.select(pl.col(RIGHT + name).alias(name) for name in self._inner.schema.names)
        rest = self._inner.encode(values, frame[GONE])
        return self._encoded(frame, [0] * frame.height, rest, null)

    def to_python(self, frame: pl.DataFrame, null: pl.Series | None = None) -> list[object]:
        """Answers."""
        values = frame.select(pl.col(RIGHT + name).alias(name) for name in self._inner.schema.names)
        right = self._inner.to_python(values, frame[GONE])
        gone = [False] * frame.height if null is None else null.to_list()
        rows = zip(frame[DIGEST].to_list(), frame[PARTITION].to_list(), right, gone, strict=True)
        return [None if none else Answer(*row) for *row, none in rows]

    def from_python(self, values: Sequence[Any]) -> tuple[pl.DataFrame, pl.Series]:
        """See ColumnCodec."""
        rows = [Answer(None, 0, None) if value is None else value for value in values]
        right, gone = self._inner.from_python([row.value for row in rows])
        frame = right.select(pl.all().name.prefix(RIGHT)).with_columns(
            pl.Series(DIGEST, [row.digest for row in rows], dtype=pl.Binary),
            pl.Series(PARTITION, [row.partition for row in rows], dtype=pl.Int32),
            gone.alias(GONE),
        )
        return frame.select(self.schema.names), pl.Series([value is None for value in values], dtype=pl.Boolean)
