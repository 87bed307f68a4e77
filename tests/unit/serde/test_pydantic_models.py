"""Pydantic models as JSON values: plain ones in rows and in columns alike, all others by Pydantic itself."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field, field_validator

from hayase import Consumed, JsonSchemaSerde, JsonSerde, Produced, Serdes, StreamsBuilder
from hayase.core.errors import SerializationError
from hayase.testing import SchemaRegistryServer, TopologyTestDriver


class Line(BaseModel):
    item: str
    cents: int = 0


class Order(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")

    customer: str
    total: float
    paid: bool = False
    coupon: str | None = None
    first: Line | None = None
    lines: list[Line] = Field(default_factory=list)


class Checked(BaseModel):
    """Does something of its own."""

    model_config = ConfigDict(extra="forbid")

    name: str = Field(alias="Name", min_length=2)
    at: datetime

    @field_validator("name")
    @classmethod
    def not_nobody(cls, name: str) -> str:
        if name == "nobody":
            raise ValueError("nobody is no name")
        return name.title()


class Weighed(BaseModel):
    kilos: float = Field(gt=-1)


orders = st.builds(
    Order,
    customer=st.text(max_size=3),
    total=st.floats(allow_nan=False, allow_infinity=False),
    coupon=st.none() | st.text(max_size=3),
    first=st.none() | st.builds(Line, item=st.text(max_size=3), cents=st.integers(-(2**63), 2**63 - 1)),
    lines=st.lists(st.builds(Line, item=st.text(max_size=3)), max_size=3),
)


@given(st.lists(st.none() | orders, max_size=5))
def test_a_plain_model_is_the_same_in_rows_and_in_columns(values: list[Order | None]) -> None:
    serde = JsonSerde(Order)
    data = [serde.serialize(value) for value in values]
    assert [serde.deserialize(each) for each in data] == values == serde.deserialize_many(data)
    codec = serde.columns
    assert codec is not None
    decoded = codec.decode_list(data)
    assert not decoded.bad
    assert codec.to_python(decoded.frame, decoded.null) == values
    assert codec.encode(*codec.from_python(values)) == data
    assert all(type(value) in (Order, type(None)) for value in codec.to_python(decoded.frame, decoded.null))


def test_missing_fields_of_a_plain_model_take_their_defaults_and_nothing_is_converted() -> None:
    serde = JsonSerde(Order)
    assert serde.deserialize(b'{"customer":"ada","total":1,"first":{"item":"tea"},"more":1}') == Order(
        customer="ada", total=1.0, first=Line(item="tea")
    )
    for text in (b'{"customer":"ada"}', b'{"customer":"ada","total":"1"}', b'{"customer":1,"total":1}'):
        with pytest.raises(SerializationError):
            serde.deserialize(text)
        assert serde.columns is not None
        assert len(serde.columns.decode_list([text]).bad) == 1
    with pytest.raises(SerializationError, match="of another type"):
        serde.serialize(Line(item="tea"))  # type: ignore[arg-type]


def test_a_model_that_does_something_of_its_own_is_read_and_written_by_pydantic_in_rows() -> None:
    serde = pickle.loads(pickle.dumps(JsonSerde(Checked)))
    assert serde.columns is None
    at = datetime(2026, 1, 2, tzinfo=UTC)
    text = serde.serialize(Checked(Name="ada", at=at))
    assert text == b'{"Name":"Ada","at":"2026-01-02T00:00:00Z"}'
    assert serde.deserialize_many([text, None, b" null "]) == [Checked(Name="Ada", at=at), None, None]
    for wrong in (
        b'{"Name":"nobody","at":"2026-01-02T00:00:00Z"}',
        b'{"Name":"a"}',
        b"{",
        b'{"Name":5,"at":"2026-01-02"}',
    ):
        with pytest.raises(SerializationError):
            serde.deserialize(wrong)


def test_numbers_that_json_does_not_have_are_refused() -> None:
    for serde, value in (
        (JsonSerde(Weighed), Weighed(kilos=float("inf"))),
        (JsonSerde(Order), Order(customer="", total=float("nan"))),
    ):
        with pytest.raises(SerializationError, match="NaN or infinite"):
            serde.serialize(value)  # type: ignore[arg-type]


@pytest.mark.parametrize("form", ["rows", "columns"])
def test_a_topology_over_models_runs_in_both_forms(form: str) -> None:
    builder = StreamsBuilder()
    stream = builder.stream("orders", Consumed.with_(Serdes.string(), JsonSerde(Order)))
    stream.filter(pl.col("total") > 1).to("large", Produced.with_(Serdes.string(), JsonSerde(Order)))
    given, dropped = Order(customer="ada", total=2.5, lines=[Line(item="tea", cents=1)]), Order(customer="bob", total=1)
    with TopologyTestDriver(builder.build(), {"processing.form": form}) as driver:
        source = driver.create_input_topic("orders", Serdes.string(), JsonSerde(Order))
        source.pipe_value_list([given, dropped])
        large = driver.create_output_topic("large", Serdes.string(), JsonSerde(Order))
        assert large.read_values_to_list() == [given]


def test_expressions_over_lists_of_models_and_sinks_without_serde_take_models_as_they_take_dataclasses() -> None:
    builder = StreamsBuilder()
    stream = builder.stream("orders", Consumed.with_(Serdes.string(), JsonSerde(Order)))
    changed = stream.map_values(lambda order: order.model_copy(update={"paid": True}))
    changed.filter(pl.col("lines").list.len() > 0).to("out")
    with TopologyTestDriver(builder.build()) as driver:
        source = driver.create_input_topic("orders", Serdes.string(), JsonSerde(Order))
        source.pipe_input("k", Order(customer="ada", total=1, lines=[Line(item="tea")]))
        (found,) = driver.create_output_topic("out", Serdes.string(), JsonSerde(Order)).read_values_to_list()
        assert (found.customer, found.paid, found.lines) == ("ada", True, [Line(item="tea")])


def test_the_functions_of_a_topology_get_models() -> None:
    builder = StreamsBuilder()
    stream = builder.stream("in", Consumed.with_(Serdes.string(), JsonSerde(Checked)))
    stream.map_values(lambda checked: checked.name).to("out", Produced.with_(Serdes.string(), Serdes.string()))
    with TopologyTestDriver(builder.build()) as driver:
        driver.create_input_topic("in", Serdes.string(), Serdes.string()).pipe_input(
            "k", '{"Name":"ada","at":"2026-01-02T00:00:00Z"}'
        )
        assert driver.create_output_topic("out", Serdes.string(), Serdes.string()).read_value() == "Ada"


def test_the_json_schema_of_a_model_is_registered() -> None:
    with SchemaRegistryServer() as server:
        serde: Any = JsonSchemaSerde(Order, server.url).for_topic("orders", "value", {})
        value = Order(customer="ada", total=1)
        assert serde.deserialize(serde.serialize(value)) == value
