"""Which code makes a sub-topology one whose rows have to be journalled."""

from __future__ import annotations

import dataclasses
import json
import os
import random
import subprocess
import sys
import typing
from collections.abc import Callable
from typing import Any

import msgspec
import polars as pl
import pytest

from hayase import AvroSerde, Consumed, Grouped, JsonSerde, Serde, Serdes, StreamsBuilder, count
from hayase.compiler.compile import compile_subtopologies
from hayase.compiler.options import compile_options
from hayase.core.config import StreamsConfig
from hayase.kernel.frame.expressions import canonical_text, is_pure_expression
from hayase.processor.handlers import HandlerAnswer
from hayase.serde.python_types import is_plain_type
from hayase.task.compiled_subtopology import CompiledSubtopology

A = pl.col("a")


def twice(value: int) -> int:
    return hash((value,)) % 7


UDF = A.map_elements(twice, return_dtype=pl.Int64)


@pytest.mark.parametrize(
    "expression",
    [
        UDF,
        pl.when(A > 0).then(UDF + 1).otherwise(0),
        A.map_batches(lambda column: column),
        pl.col("l").list.eval(pl.element().map_elements(twice, return_dtype=pl.Int64)),
        pl.struct("a", "b").map_elements(lambda row: hash(str(row)), return_dtype=pl.Int64),
        pl.fold(pl.lit(0), lambda x, y: x + y, [A, pl.col("b")]),
        pl.reduce(lambda x, y: x + y, [A, pl.col("b")]),
        pl.map_batches(["a", "b"], lambda columns: columns[0]),
        A.shuffle(),
        pl.col("l").list.sample(1),
        A.rank("random"),
    ],
    ids=str,
)
def test_python_and_chance_are_found_wherever_they_are_in_an_expression(expression: pl.Expr) -> None:
    assert not is_pure_expression(expression)


@pytest.mark.parametrize(
    "expression",
    [
        (A > 10) & pl.col("b").str.contains("python_udf"),
        A.replace_strict({1: 2}),
        pl.col("l").list.eval(pl.element() * 2),
        pl.lit("Random seed callback"),
        pl.col("Random").alias("seed"),
        A.hash(7),
        pl.struct("a", "b"),
        pl.col("t").str.to_datetime("%Y"),
    ],
    ids=str,
)
def test_expressions_of_polars_alone_are_pure(expression: pl.Expr) -> None:
    assert is_pure_expression(expression)


def subtopology(build: Callable[[Any], Any], **settings: Any) -> CompiledSubtopology:
    """The first sub-topology of a stream that is counted by what `build` makes of it."""
    builder = StreamsBuilder()
    orders = builder.stream("in", Consumed.with_(Serdes.string(), JsonSerde(schema={"a": pl.Int64, "b": pl.Int64})))
    build(orders).group_by_key().agg(n=count())
    config = StreamsConfig({"application.id": "app", **settings})
    topology = builder.build()
    return compile_subtopologies(topology, compile_options(config))["0"]


def by(expression: pl.Expr) -> Callable[[Any], Any]:
    return lambda orders: orders.select_key(expression)


def test_a_grouping_by_an_expression_with_python_in_it_is_journalled() -> None:
    assert subtopology(by(UDF)).journalled
    assert not subtopology(by(A + 1)).journalled


def test_a_field_made_by_python_makes_a_sub_topology_journalled() -> None:
    assert subtopology(lambda orders: orders.map_values({"a": UDF, "b": pl.col("b")}).select_key(A)).journalled


def test_an_exception_handler_of_the_application_makes_a_sub_topology_journalled() -> None:
    def sometimes(context: object, error: Exception) -> HandlerAnswer:
        return HandlerAnswer.CONTINUE

    assert subtopology(by(A), **{"deserialization.exception.handler": sometimes}).journalled
    assert not subtopology(by(A), **{"deserialization.exception.handler": "log_and_continue"}).journalled


def test_another_expression_is_another_definition() -> None:
    assert subtopology(by(A)).definition == subtopology(by(A)).definition
    assert subtopology(by(A)).definition != subtopology(by(A + 1)).definition
    assert subtopology(by(UDF)).definition == ""


class OwnSerde(Serde[str]):
    """A serde of the application."""

    def to_bytes(self, value: str) -> bytes:
        return value.encode()

    def from_bytes(self, data: bytes) -> str:
        return data.decode()


def grouped(read: Serde[Any], key: Serde[Any], value: Serde[Any]) -> CompiledSubtopology:
    builder = StreamsBuilder()
    given = builder.stream("in", Consumed.with_(Serdes.string(), read))
    given.group_by(pl.col("value"), Grouped.with_(key, value)).count()
    topology = builder.build()
    options = compile_options(StreamsConfig({"application.id": "app", "processing.form": "rows"}))
    return compile_subtopologies(topology, options)["0"]


def test_a_serde_of_the_application_makes_a_sub_topology_journalled_wherever_it_is() -> None:
    text = Serdes.string()
    assert not grouped(text, text, text).journalled
    assert grouped(OwnSerde(), text, text).journalled
    assert grouped(text, OwnSerde(), text).journalled
    assert grouped(text, text, OwnSerde()).journalled
    assert grouped(Serdes.list(OwnSerde()), Serdes.list(text), Serdes.list(text)).journalled
    assert not grouped(Serdes.list(text), Serdes.list(text), Serdes.list(text)).journalled


def test_another_serde_of_what_is_sent_is_another_definition() -> None:
    text = Serdes.string()
    assert grouped(text, text, text).definition != grouped(text, text, Serdes.bytes()).definition


class Plain(msgspec.Struct):
    a: int
    region: str = "r0"
    tags: list[str] = []


class OtherDefault(msgspec.Struct):
    a: int
    region: str = "r3"
    tags: list[str] = []


class OtherName(msgspec.Struct):
    a: int
    region: str = msgspec.field(default="r0", name="area")
    tags: list[str] = []


class WithFactory(msgspec.Struct):
    a: int
    region: str = msgspec.field(default_factory=lambda: str(random.random()))


class WithCode(msgspec.Struct):
    a: int

    def __post_init__(self) -> None:
        self.a += random.randrange(9)


@dataclasses.dataclass
class Holding:
    a: int
    part: WithFactory | None = None


def reading(serde: Serde) -> CompiledSubtopology:
    """What reads values of a serde and counts them by a field."""
    builder = StreamsBuilder()
    values = builder.stream("in", Consumed.with_(Serdes.string(), serde))
    values.group_by(pl.col("a"), Grouped.with_(Serdes.long())).agg(n=count())
    topology = builder.build()
    options = compile_options(StreamsConfig({"application.id": "app"}))
    return compile_subtopologies(topology, options)["0"]


class Annotated(msgspec.Struct):
    a: typing.Annotated[int, ["a list cannot be hashed"]] = 3


def of_a_function() -> type:
    @dataclasses.dataclass
    class Part:
        n: int

    @dataclasses.dataclass
    class Whole:
        a: int
        parts: dict[str, Part]

    return Whole


def test_annotations_of_every_kind_are_looked_at_without_an_error() -> None:
    assert is_plain_type(Annotated)
    assert is_plain_type(dict[str, list[Annotated]] | None)
    assert not is_plain_type(of_a_function())  # nothing here knows its types


@pytest.mark.parametrize("kind", [WithFactory, WithCode, Holding])
def test_a_type_that_runs_code_when_it_is_read_makes_a_sub_topology_journalled(kind: type) -> None:
    assert not reading(JsonSerde(kind)).pure


def test_a_type_of_constants_alone_is_pure() -> None:
    assert reading(JsonSerde(Plain)).pure


@pytest.mark.parametrize("other", [OtherDefault, OtherName])
def test_another_default_or_another_name_in_json_is_another_definition(other: type) -> None:
    other.__name__ = other.__qualname__ = "Plain"  # as in a program that was changed
    assert reading(JsonSerde(other)).definition != reading(JsonSerde(Plain)).definition


def test_another_default_of_an_avro_schema_is_another_definition() -> None:
    def schema(default: str) -> str:
        fields = [{"name": "a", "type": "long"}, {"name": "r", "type": "string", "default": default}]
        return json.dumps({"type": "record", "name": "V", "fields": fields})

    first, second = (
        AvroSerde(schema(default), registry="http://127.0.0.1:1") for default in ("r0", "r3")
    )  # none there
    assert reading(first).definition != reading(second).definition


@pytest.mark.long
def test_a_python_set_in_an_expression_is_the_same_definition_in_every_process() -> None:
    """In each process its elements come in another order."""
    program = (
        "import polars as pl; from hayase.kernel.frame.expressions import canonical_text;"
        "print(canonical_text(~pl.col('r').is_in({'a', 'b', 'c', 'd', 'e'}) & (pl.col('n') > 1)))"
    )
    texts = {
        subprocess.run(
            [sys.executable, "-W", "ignore", "-c", program], env={**os.environ, "PYTHONHASHSEED": seed}, check=True,
            capture_output=True,
        ).stdout
        for seed in ("1", "2", "3")
    }  # fmt: skip
    assert len(texts) == 1
    assert canonical_text(pl.col("r").is_in(["a", "b"])) != canonical_text(pl.col("r").is_in(["a", "c"]))
