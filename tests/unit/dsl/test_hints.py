"""Errors of calls that were meant otherwise say what to write."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import polars as pl
import pytest

from hayase import Consumed, JoinWindows, Materialized, Processor, Produced, Serdes, StreamsBuilder
from hayase.core.errors import HayaseError, TopologyError
from hayase.testing import TopologyTestDriver

TEXT = Serdes.string()
READ = Consumed.with_(TEXT, Serdes.json(schema={"city": pl.String}))


def stream(builder: StreamsBuilder | None = None, topic: str = "in") -> Any:
    return (builder or StreamsBuilder()).stream(topic, READ)


def tables() -> tuple[Any, Any]:
    builder = StreamsBuilder()
    return builder.table("a", READ), builder.table("b", READ)


def joined_by_foreign_key() -> object:
    left, right = tables()
    return left.join(right, pl.col("city"), lambda a, b: a, Materialized.as_("kept"))


def joined_with_a_plain_column() -> object:
    left, right = tables()
    return left.join(right, {"city": pl.col("city")})


def joined_without_windows() -> object:
    builder = StreamsBuilder()
    return stream(builder, "a").join(stream(builder, "b"), lambda a, b: a)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (joined_by_foreign_key, "give it by name, as materialized="),
        (joined_with_a_plain_column, "instead of 'city' write left('city') or right('city')"),
        (joined_without_windows, "; windows is missing"),
        (lambda: stream().split().branch(pl.col("city") == "Oslo", "big"), "write Branched.as_('big')"),
        (lambda: StreamsBuilder().stream("in", TEXT), "write Consumed.with_(KEY_SERDE, VALUE_SERDE)"),
    ],
)
def test_an_argument_of_another_kind_is_told_what_to_write(wrong: Callable[[], object], said: str) -> None:
    with pytest.raises(TopologyError) as raised:
        wrong()
    assert said in str(raised.value)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda: tables()[0].to("out"), "to_stream().to(…)"),
        (lambda: stream().windowed_by(JoinWindows), "group_by_key().windowed_by(…)"),
        (lambda: stream().colour, "'KStream' object has no attribute 'colour'"),
    ],
)
def test_an_operation_of_another_class_is_told_where_it_is(wrong: Callable[[], object], said: str) -> None:
    with pytest.raises(AttributeError) as raised:
        wrong()
    assert said in str(raised.value)


def test_a_branch_that_is_not_there_is_told_which_are() -> None:
    parts = stream().split(name="city-").branch(pl.col("city") == "Oslo").default_branch()
    assert list(parts) == ["city-1", "city-0"]
    with pytest.raises(KeyError, match="there are: city-1, city-0"):
        parts["1"]


def test_an_unreadable_key_is_told_from_an_unreadable_value() -> None:
    for form in ("rows", "columns"):
        builder = StreamsBuilder()
        schema = Serdes.json(schema={"city": pl.String})
        builder.stream("in", Consumed.with_(schema, schema)).to("out", Produced.with_(schema, schema))
        for key, value, side in ((b"ada", b"{}", "key"), (b"{}", b"ada", "value")):
            with TopologyTestDriver(builder, {"processing.form": form}) as driver, pytest.raises(HayaseError) as raised:
                driver.pipe("in", key, value, 0, ())
            assert f"the {side} cannot be read: " in str(raised.value)


class WithoutStore(Processor):
    def init(self, context: Any) -> None:
        context.get_state_store("counts")

    def process(self, record: Any) -> None:
        pass


def test_a_store_that_is_not_connected_names_the_line_that_asks_for_it() -> None:
    builder = StreamsBuilder()
    stream(builder).process(WithoutStore)
    with pytest.raises(HayaseError, match=r"STORE_NOT_CONNECTED.*test_hints\.py:\d+"):
        TopologyTestDriver(builder)


def test_windows_of_a_join_may_be_given_by_name() -> None:
    builder = StreamsBuilder()
    windows = JoinWindows.of_time_difference_with_no_grace(timedelta(minutes=1))
    stream(builder, "a").join(stream(builder, "b"), lambda a, b: a, windows=windows)
