"""No pickle crosses a topic unless the user gives the serde that says so."""

from __future__ import annotations

import datetime as dt
import pickle
import uuid
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hayase import Consumed, Materialized, Serdes, StreamsBuilder
from hayase.compiler.options import configured
from hayase.compiler.serdes import LocalPickleSerde, without_pickle
from hayase.core.config import StreamsConfig
from hayase.core.errors import SerializationError
from hayase.serde.changes import ChangeSerde
from hayase.serde.pickled import PickleSerde
from hayase.serde.plain import PlainSerde
from hayase.serde.protocol import Serde
from hayase.testing import TopologyTestDriver
from hayase.topology.defaults import DefaultSerde
from hayase.topology.nodes import SinkNode, SourceNode

RAN: list[str] = []
ATOMS = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(st.characters(codec="utf-8"))
    | st.binary() | st.dates() | st.times() | st.datetimes() | st.datetimes(timezones=st.just(dt.UTC)) | st.timedeltas()
    | st.decimals(allow_nan=False) | st.uuids()
)  # fmt: skip
HASHABLE = st.recursive(ATOMS, lambda inner: st.lists(inner, max_size=3).map(tuple) | st.frozensets(inner, max_size=3))
VALUES = st.recursive(
    HASHABLE,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(HASHABLE, inner, max_size=3)
        | st.sets(HASHABLE, max_size=3)
    ),
    max_leaves=10,
)


class Bomb:
    """What a hostile writer pickles."""

    def __reduce__(self) -> Any:
        return (RAN.append, ("ran",))


class Row:
    """A class of a user."""


def holds_pickle(serde: Serde[Any] | None) -> bool:
    found: list[bool] = []

    def look(inner: Serde[Any]) -> Serde[Any]:
        found.append(isinstance(inner, PickleSerde))
        inner.map_inner(look)
        if isinstance(inner, DefaultSerde) and inner.fallback is not None:
            look(inner.fallback)
        return inner

    if serde is not None:
        look(serde)
    return any(found)


def joined(value_serde: Serde[Any] | None = None) -> StreamsBuilder:
    """A foreign-key join whose right values come out of a function of which nothing is known."""
    builder = StreamsBuilder()
    text = Consumed.with_(Serdes.string(), Serdes.string())
    left, right = builder.table("left", text), builder.table("right", text)
    made: Any = lambda text: {"made": (text, {1})} if text != "row" else Row()  # noqa: E731
    if value_serde is None:
        rows = right.map_values(made)
    else:
        rows = right.map_values(made, Materialized.as_("rows").with_value_serde(value_serde))
    both = left.join(
        rows, lambda value: value, lambda one, other: f"{one} {other}", materialized=Materialized.as_("both")
    )
    both.to_stream().to("out")
    return builder


def cyclic() -> StreamsBuilder:
    """A repartition that closes a cycle and so is a topic, of values of which nothing is known."""
    builder = StreamsBuilder()
    table = builder.table("t", Consumed.with_(Serdes.string(), Serdes.string()))
    counts = table.map_values(lambda v: (v,)).group_by(lambda key, value: (key, value)).count()
    table.join(counts, lambda a, b: f"{a}{b}").to_stream().to("out")
    return builder


@pytest.mark.parametrize("build", [joined, cyclic])
def test_no_topic_of_the_log_has_a_serde_that_pickles(build: Any) -> None:
    config = StreamsConfig({"application.id": "a", "default.key.serde": Serdes.string()})
    topology = configured(build().build(), config)
    nodes = [node for node in topology.nodes if isinstance(node, SinkNode | SourceNode)]
    for node in nodes:
        topics = node.topics if isinstance(node, SourceNode) else (node.topic,)
        if not any(topic in topology.repartitions for topic in topics):
            assert not holds_pickle(node.key_serde), node
            assert not holds_pickle(node.value_serde), node


def test_a_serde_for_a_topic_has_no_pickle_at_any_depth_but_that_of_the_user() -> None:
    deep = ChangeSerde(DefaultSerde("value", LocalPickleSerde(), "t"))
    assert holds_pickle(deep)
    assert not holds_pickle(without_pickle(deep))
    assert isinstance(without_pickle(Serdes.pickle()), PickleSerde)


def run(builder: StreamsBuilder, *rows: tuple[str, str]) -> list[tuple[str, str]]:
    with TopologyTestDriver(builder.build()) as driver:
        left = driver.create_input_topic("left", Serdes.string(), Serdes.string())
        right = driver.create_input_topic("right", Serdes.string(), Serdes.string())
        for key, value in rows:
            right.pipe_input(key, value)
        left.pipe_input("l", "r")
        return driver.create_output_topic("out", Serdes.string(), Serdes.string()).read_key_values_to_list()


def test_values_of_pythons_own_types_cross_the_topic_of_answers_as_they_are() -> None:
    assert run(joined(), ("r", "x")) == [("l", "r {'made': ('x', {1})}")]


def test_a_value_of_a_class_is_refused_with_the_ways_out_unless_pickle_is_asked_for() -> None:
    with pytest.raises(Exception, match=r"Row.*Give the table or stream a serde.*Serdes\.pickle\(\)"):
        run(joined(), ("r", "row"))
    ((_, found),) = run(joined(Serdes.pickle()), ("r", "row"))
    assert "Row object" in found


def test_a_hostile_pickle_in_a_topic_is_refused_and_not_run() -> None:
    for protocol in range(2, 6):
        with pytest.raises(SerializationError, match=r"Serdes\.pickle\(\)"):
            PlainSerde().deserialize(pickle.dumps(Bomb(), protocol))
    assert RAN == []


@given(VALUES)
def test_plain_values_come_back_with_their_types(value: Any) -> None:
    found = PlainSerde().deserialize(PlainSerde().serialize(value))
    assert found == value
    assert type(found) is type(value)


@given(st.sets(HASHABLE, max_size=5))
def test_equal_sets_have_equal_bytes(value: set[Any]) -> None:
    again = set(sorted(value, key=repr))  # noqa: C414 - in another order
    assert PlainSerde().serialize(again) == PlainSerde().serialize(value)


@pytest.mark.parametrize(
    "value",
    [
        Row(),
        [Row()],
        {"a": object()},
        {Row(): 1},
        type("S", (str,), {})("x"),
        dt.time(1, tzinfo=dt.UTC),
        "\ud800",
        print,
    ],
)
def test_what_plain_bytes_cannot_hold_without_loss_is_refused(value: Any) -> None:
    with pytest.raises(SerializationError):
        PlainSerde().serialize(value)


def test_plain_bytes_of_known_types() -> None:
    for value in (
        Decimal("1.50"),
        uuid.UUID(int=5),
        2**200,
        -(2**64),
        (),
        {()},
        {1: 2},
        {"a": None},
        [[]],
        float("inf"),
    ):
        assert PlainSerde().deserialize(PlainSerde().serialize(value)) == value
