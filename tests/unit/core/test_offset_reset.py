"""`AutoOffsetReset`: as an object, as text, as a setting."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hayase import AutoOffsetReset, Consumed, StreamsBuilder, StreamsConfig, Topology
from hayase.core.errors import ConfigError, TopologyError
from hayase.topology.nodes import SourceNode


@given(st.integers(0, 10**15))
def test_the_text_of_a_duration_means_the_same_duration(duration_ms: int) -> None:
    made = AutoOffsetReset.by_duration(timedelta(milliseconds=duration_ms))
    assert AutoOffsetReset.of(str(made)) == made


@pytest.mark.parametrize(
    ("text", "duration_ms"), [("PT0S", 0), ("P1D", 86_400_000), ("PT1H30M", 5_400_000), ("P2DT0.5S", 172_800_500)]
)
def test_durations_are_written_as_in_iso_8601(text: str, duration_ms: int) -> None:
    assert AutoOffsetReset.of(f"by_duration:{text}").duration_ms == duration_ms


@pytest.mark.parametrize(
    "text",
    [
        "",
        "by_duration",
        "by_duration:",
        "by_duration:P",
        "by_duration:PT",
        "by_duration:-PT1S",
        "by_duration:1h",
        "middle",
    ],
)
def test_other_texts_are_refused_with_what_is_allowed(text: str) -> None:
    with pytest.raises(TopologyError, match="by_duration:PT1H30M"):
        AutoOffsetReset.of(text)
    with pytest.raises(ConfigError, match=r"auto\.offset\.reset is"):
        StreamsConfig({"application.id": "a", "auto.offset.reset": text})


def test_a_negative_duration_is_refused() -> None:
    with pytest.raises(TopologyError, match="at least 0 ms"):
        AutoOffsetReset.by_duration(timedelta(seconds=-1))


def test_a_source_takes_it_as_an_object_and_by_name() -> None:
    builder = StreamsBuilder()
    hour = AutoOffsetReset.by_duration(timedelta(hours=1))
    builder.stream("a", Consumed.with_(reset=hour))
    builder.stream("b", Consumed.as_("b").with_offset_reset_policy("none"))
    resets = [node.reset for node in builder.build().nodes if isinstance(node, SourceNode)]
    assert resets == [hour, AutoOffsetReset.none()]
    (source,) = Topology().add_source("s", "t", offset_reset="latest").nodes
    assert isinstance(source, SourceNode)
    assert source.reset == AutoOffsetReset.latest()
    assert StreamsConfig({"application.id": "a"}).auto_offset_reset == AutoOffsetReset.earliest()
