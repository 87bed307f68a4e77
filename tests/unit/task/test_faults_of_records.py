"""A record that a serde fails on reaches its exception handler, whatever the serde raises, in rows and in columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

from hayase import Consumed, Materialized, Produced, Serdes, StreamsBuilder
from hayase.core.errors import HayaseError, SchemaRegistryError, SerializationError
from hayase.processor.handlers import ErrorContext, HandlerAnswer
from hayase.processor.timestamps import callable_timestamp
from hayase.serde.bare import BytesSerde
from hayase.serde.faults import read_columns, read_rows, shown, unwritable
from hayase.serde.protocol import ColumnCodec, Decoded, Serde
from hayase.testing import TopologyTestDriver


class PanicException(BaseException):
    """What a panic in Rust is in Python: no Exception."""


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")

    __repr__ = __str__


RAISED: list[BaseException] = [
    KeyError("k"),
    RuntimeError("decimal"),
    UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"),
    MemoryError(),
    RecursionError("too deep"),
    ZeroDivisionError(),
    PanicException("explicit panic"),
    Unprintable(),
    ValueError("half a pair: \ud800"),
]
NAMES = [type(each).__name__ for each in RAISED]


class Picky(Serde[bytes]):
    """Bytes, but raises on `bad`."""

    def __init__(self, error: BaseException, *, in_columns: bool = False) -> None:
        self.error = error
        self._in_columns = in_columns

    def to_bytes(self, value: bytes) -> bytes:
        if value == b"bad":
            raise self.error
        return value

    from_bytes = to_bytes

    @property
    def columns(self) -> ColumnCodec | None:
        return PickyCodec(self) if self._in_columns else None


class PickyCodec(ColumnCodec):
    """A codec of a user that raises for the whole batch."""

    def __init__(self, serde: Picky) -> None:
        self._serde = serde
        inner = BytesSerde().columns
        assert inner is not None
        self._inner: ColumnCodec = inner

    @property
    def schema(self) -> Any:
        return self._inner.schema

    def decode(self, data: pa.Array, fields: frozenset[str] | None = None) -> Decoded:
        for each in data.to_pylist():
            self._serde.deserialize(each)
        return self._inner.decode(data, fields)

    def encode(self, frame: pl.DataFrame, null: pl.Series | None = None) -> list[bytes | None]:
        found = self._inner.encode(frame, null)
        return [self._serde.serialize(each) for each in found]

    def to_python(self, frame: pl.DataFrame, null: pl.Series | None = None) -> list[Any]:
        return self._inner.to_python(frame, null)

    def from_python(self, values: Sequence[Any]) -> tuple[pl.DataFrame, pl.Series]:
        return self._inner.from_python(values)


class Handler:
    """Remembers what it was asked about; drops it."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, bytes | None, bytes | None, Exception]] = []

    def __call__(self, context: ErrorContext, error: Exception) -> HandlerAnswer:
        self.asked.append((context.stage, context.raw_key, context.raw_value, error))
        return HandlerAnswer.CONTINUE


def copied(read: Serde[bytes], write: Serde[bytes], handler: Handler, values: Sequence[bytes]) -> list[Any]:
    """What comes out of `in` → `out`."""
    builder = StreamsBuilder()
    keys = Serdes.bytes()
    builder.stream("in", Consumed.with_(keys, read)).to("out", Produced.with_(keys, write))
    stages = ("deserialization", "processing", "production")
    settings = {f"{stage}.exception.handler": handler for stage in stages}
    with TopologyTestDriver(builder.build(), settings) as driver:
        source = driver.create_input_topic("in", Serdes.bytes(), Serdes.bytes())
        sink = driver.create_output_topic("out", Serdes.bytes(), Serdes.bytes())
        for value in values:
            source.pipe_input(b"k", value)
        return [value for _, value in sink.read_key_values_to_list()]


@pytest.mark.parametrize("in_columns", [False, True], ids=["rows", "columns"])
@pytest.mark.parametrize("error", RAISED, ids=NAMES)
def test_whatever_a_deserializer_raises_goes_to_its_handler(error: BaseException, in_columns: bool) -> None:
    handler = Handler()
    found = copied(Picky(error, in_columns=in_columns), Serdes.bytes(), handler, [b"a", b"bad", b"b"])
    assert found == [b"a", b"b"]
    ((stage, _, value, given),) = handler.asked
    assert (stage, value) == ("deserialization", b"bad")
    assert isinstance(given, SerializationError)
    assert given.__cause__ is error


@pytest.mark.parametrize("in_columns", [False, True], ids=["rows", "columns"])
@pytest.mark.parametrize("error", RAISED, ids=NAMES)
def test_whatever_a_serializer_raises_goes_to_the_production_handler(error: BaseException, in_columns: bool) -> None:
    handler = Handler()
    found = copied(Serdes.bytes(), Picky(error, in_columns=in_columns), handler, [b"a", b"bad", b"b"])
    assert found == [b"a", b"b"]
    ((stage, _, value, given),) = handler.asked
    assert (stage, value) == ("production", b"bad")
    assert isinstance(given, SerializationError)
    assert given.__cause__ is error


@pytest.mark.parametrize("stop", [KeyboardInterrupt(), SystemExit(), SchemaRegistryError("SCHEMA_REGISTRY_FAILED", "")])
def test_what_stops_a_program_and_a_registry_that_is_away_are_no_faults_of_a_record(stop: BaseException) -> None:
    handler = Handler()
    for in_columns in (False, True):
        with pytest.raises(type(stop)):
            copied(Picky(stop, in_columns=in_columns), Serdes.bytes(), handler, [b"bad"])
        with pytest.raises(type(stop)):
            copied(Serdes.bytes(), Picky(stop, in_columns=in_columns), handler, [b"bad"])
    assert handler.asked == []


@pytest.mark.parametrize("bad", [[0], [3], [1, 2, 6], list(range(7))])
def test_a_codec_that_raises_for_a_whole_batch_loses_only_the_bad_values(bad: list[int]) -> None:
    data = [b"bad" if row in bad else None if row == 4 else b"%d" % row for row in range(7)]
    serde = Picky(RuntimeError("decimal"), in_columns=True)
    assert serde.columns is not None
    found = read_columns(serde, serde.columns, data)
    assert [row for row, _ in found.bad] == bad
    assert found.frame["value"].to_list() == [None if row in bad else data[row] for row in range(7)]
    assert found.null.to_list() == [each is None for each in data]
    values, faults = read_rows(serde, data)
    assert (values, list(faults)) == (found.frame["value"].to_list(), bad)


def test_a_serde_that_loses_values_of_a_batch_is_asked_for_each(monkeypatch: pytest.MonkeyPatch) -> None:
    class Losing(BytesSerde):
        def deserialize_many(self, data: Sequence[bytes | None]) -> list[bytes | None]:
            return list(data)[1:]

    assert read_rows(Losing(), [b"a", b"b"]) == ([b"a", b"b"], {})


def test_the_dead_letter_of_an_error_that_cannot_be_printed_is_written() -> None:
    for error in (Unprintable(), ValueError("\ud800")):
        builder = StreamsBuilder()
        builder.stream("in", Consumed.with_(Serdes.bytes(), Picky(error))).to("out")
        settings = {
            "deserialization.exception.handler": "dead_letter",
            "errors.dead.letter.queue.topic.name": "dead",
        }
        with TopologyTestDriver(builder.build(), settings) as driver:
            driver.create_input_topic("in", Serdes.bytes(), Serdes.bytes()).pipe_input(b"k", b"bad")
            found = driver.create_output_topic("dead", Serdes.bytes(), Serdes.bytes()).read_record()
            assert found.value == b"bad"
            headers = dict(found.headers)
            assert headers["__streams.errors.exception"] == b"hayase.core.errors.SerializationError"


def test_a_value_that_a_store_cannot_keep_goes_to_the_processing_handler() -> None:
    handler = Handler()
    builder = StreamsBuilder()
    stream = builder.stream("in", Consumed.with_(Serdes.string(), Serdes.string()))
    stream.group_by_key().reduce(
        lambda _, new: new if new != "bad" else object(), Materialized.as_("s").with_value_serde(Serdes.string())
    )
    with TopologyTestDriver(builder.build(), {"processing.exception.handler": handler}) as driver:
        source = driver.create_input_topic("in", Serdes.string(), Serdes.string())
        for value in ("a", "bad", "b"):
            source.pipe_input("k", value)
        assert driver.store("s").get("k").value == "b"
    assert [(stage, value) for stage, _, value, _ in handler.asked] == [("processing", b"bad")]


EXTRACTED: list[Callable[[], Any]] = [lambda: 2**63, lambda: 2**200, lambda: -(2**80), lambda: "x", lambda: 1.5]


@pytest.mark.parametrize("time", EXTRACTED, ids=["2^63", "2^200", "-2^80", "text", "fraction"])
def test_a_time_beyond_64_bits_is_an_invalid_time_not_an_overflow(time: Callable[[], Any]) -> None:
    builder = StreamsBuilder()
    extractor = callable_timestamp(lambda record, partition_time: time())
    builder.stream("in", Consumed.with_(Serdes.string(), Serdes.string(), timestamp_extractor=extractor)).to("out")
    with TopologyTestDriver(builder.build()) as driver, pytest.raises(HayaseError) as caught:
        driver.create_input_topic("in", Serdes.string(), Serdes.string()).pipe_input("k", "v")
    assert caught.value.condition == "INVALID_TIMESTAMP"


def test_a_value_whose_repr_fails_is_still_named_in_the_error() -> None:
    class Odd:
        def __repr__(self) -> str:
            raise ValueError

    assert "Odd" in shown(Odd())
    assert "int" in shown(10**5000)
    assert "Odd" in str(unwritable(RuntimeError("x"), Serdes.string(), Odd()))
    with pytest.raises(SerializationError):
        Serdes.string().serialize(Odd())  # type: ignore[arg-type]
    with pytest.raises(SerializationError):
        Serdes.long().serialize(10**5000)
