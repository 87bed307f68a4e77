"""Streams of orders, and looks into what was built of them."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl
import pytest

from hayase.core.errors import TopologyError
from hayase.dsl import (
    Consumed,
)
from hayase.serde import Serdes
from hayase.topology.defaults import with_default_serdes
from hayase.topology.nodes import SinkNode

ORDERS = Consumed.with_(
    Serdes.string(), Serdes.json(schema={"user": pl.String, "amount": pl.Int64, "tags": pl.List(pl.String)})
)
USERS = Consumed.with_(Serdes.string(), Serdes.json(schema={"city": pl.String}))


@dataclass
class Price:
    amount: int


def condition_of(function):
    with pytest.raises(TopologyError) as caught:
        function()
    return caught.value.condition


def configured(builder, key_serde=None, value_serde=None):
    return with_default_serdes(builder.build(), key_serde, value_serde, Serdes.bytes())


def last_operator(builder):
    return builder.build().nodes[-1].operator


def sink_of(stream):
    stream.to("out")
    node = stream._state.graph.build().nodes[-1]
    assert isinstance(node, SinkNode)
    return node
