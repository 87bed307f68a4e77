"""Fields that are misspelt in expressions on values without a schema."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from hayase import Consumed, Produced, Serdes, StreamsBuilder
from hayase.core.metrics import MISSING_FIELDS
from hayase.testing import TopologyTestDriver

TEXT, JSON = Serdes.string(), Serdes.json()


def run(caplog: pytest.LogCaptureFixture, *values: Any) -> tuple[list[Any], int, list[str]]:
    """Piped through `price > 3`: what came out, how many fields were missing, and the warnings."""
    builder = StreamsBuilder()
    stream = builder.stream("in", Consumed.with_(TEXT, JSON)).filter(pl.col("price") > 3, name="dear")
    stream.to("out", Produced.with_(TEXT, JSON))
    with TopologyTestDriver(builder.build()) as driver:
        source = driver.create_input_topic("in", TEXT, JSON)
        for value in values:
            source.pipe_input("a", value)
        out = driver.create_output_topic("out", TEXT, JSON).read_values_to_list()
        return out, driver.metrics.total(MISSING_FIELDS), [record.getMessage() for record in caplog.records]


def test_a_field_that_no_value_has_is_counted_and_warned_about_once(caplog: pytest.LogCaptureFixture) -> None:
    out, missing, (warning,) = run(caplog, {"prise": 5, "item": "tea"}, {"prise": 6}, {"prise": 1})
    assert (out, missing) == ([], 3)
    assert "an expression of dear asks for the field 'price'" in warning
    assert "has the fields prise, item. Is it 'prise'?" in warning


def test_a_field_that_some_values_have_is_counted_only(caplog: pytest.LogCaptureFixture) -> None:
    out, missing, warnings = run(caplog, {"price": 5}, {"item": "tea"}, None)
    assert (out, missing, warnings) == ([{"price": 5}], 1, [])
