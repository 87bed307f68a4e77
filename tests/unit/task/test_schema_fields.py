"""A field of a schema that no value has is told of once, with the fields that are there."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from hayase import Consumed, Produced, Serdes, StreamsBuilder
from hayase.testing import TopologyTestDriver

TEXT, JSON = Serdes.string(), Serdes.json()


def warnings_of(caplog: pytest.LogCaptureFixture, form: str, schema: dict[str, Any], *values: object) -> list[str]:
    builder = StreamsBuilder()
    source = builder.stream("in", Consumed.with_(TEXT, Serdes.json(schema=schema)))
    source.map_values({"n": pl.col(next(iter(schema)))}).to("out", Produced.with_(TEXT, JSON))
    with TopologyTestDriver(builder, {"processing.form": form}) as driver:
        topic = driver.create_input_topic("in", TEXT, JSON)
        for value in values:
            topic.pipe_input("k", value)
    return [record.getMessage() for record in caplog.records]


@pytest.mark.parametrize("form", ["rows", "columns"])
def test_a_misspelt_field_is_told_of_at_once(caplog: pytest.LogCaptureFixture, form: str) -> None:
    (warning,) = warnings_of(caplog, form, {"cent": pl.Int64}, *[{"cents": 5, "item": "pen"}] * 9)
    assert "has the field 'cent', which not the first value of topic in has, so it is null" in warning
    assert "Fields that the schema does not have: cents, item. Is it 'cents'?" in warning


def test_a_field_of_quite_another_name_is_told_of_after_some_values(caplog: pytest.LogCaptureFixture) -> None:
    assert not warnings_of(caplog, "rows", {"price": pl.Int64}, *[{"cents": 5}] * 4)
    (warning,) = warnings_of(caplog, "rows", {"price": pl.Int64}, *[{"cents": 5}] * 5)
    assert "which none of the first 5 values of topic in has" in warning


@pytest.mark.parametrize(
    "values",
    [
        [{"cents": 5}] * 9,
        [{"item": "pen", "cents": 5}] * 9,
        [{}] * 9,
        ["no object", None, {"item": "pen"}],
        [{"note": 1}, {"note": 2, "cents": 1}, *[{"note": 3}] * 9],
    ],
)
def test_fields_that_are_there_or_may_be_left_out_are_no_matter(
    caplog: pytest.LogCaptureFixture, values: list[object]
) -> None:
    schema = {"cents": pl.Int64} if any("cents" in v for v in values if isinstance(v, dict)) else {"x": pl.Int64}
    builder = StreamsBuilder()
    builder.stream("in", Consumed.with_(TEXT, Serdes.json(schema=schema))).to("out", Produced.with_(TEXT, JSON))
    with TopologyTestDriver(builder, {"deserialization.exception.handler": "log_and_continue"}) as driver:
        for value in values:
            driver.create_input_topic("in", TEXT, JSON).pipe_input("k", value)
    assert not [record for record in caplog.records if "the schema of" in record.getMessage()]
