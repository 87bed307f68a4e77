"""Updates, subscriptions and answers in columns: the bytes and the values are those of the serdes."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.budget import examples

from hayase.core.records import Change
from hayase.serde import Serdes
from hayase.serde.changes import ChangeCodec, ChangeSerde
from hayase.serde.protocol import Serde
from hayase.serde.subscriptions import Answer, AnswerSerde, Instruction, Subscription, SubscriptionSerde

ROWS = Serdes.json(schema={"n": pl.Int64, "s": pl.String})
rows = st.none() | st.fixed_dictionaries({"n": st.none() | st.integers(-5, 5), "s": st.none() | st.text(max_size=3)})
digests = st.none() | st.binary(min_size=16, max_size=16)
VALUES: dict[str, tuple[Serde[Any], st.SearchStrategy[Any]]] = {
    "updates": (ChangeSerde(ROWS), st.builds(Change, rows, rows)),
    "updates of text": (ChangeSerde(Serdes.string()), st.builds(Change, st.none() | st.text(max_size=3), st.none())),
    "subscriptions": (
        SubscriptionSerde(Serdes.string()),
        st.builds(Subscription, st.sampled_from(Instruction), digests, st.integers(0, 9), st.text(max_size=4)),
    ),
    "answers": (AnswerSerde(ROWS), st.builds(Answer, digests, st.integers(0, 9), rows)),
}


@pytest.mark.parametrize("name", VALUES)
@settings(max_examples=examples(40), deadline=None)
@given(data=st.data())
def test_columns_write_and_read_the_bytes_of_the_serde(name: str, data: st.DataObject) -> None:
    serde, values = VALUES[name]
    given_values = data.draw(st.lists(values, max_size=5))
    codec = serde.columns
    assert codec is not None
    written = [serde.serialize(value) for value in given_values]
    decoded = codec.decode_list(written)
    assert decoded.bad == []
    names = codec.names if isinstance(codec, ChangeCodec) else codec.schema.names
    frame, null = codec.from_python(given_values)
    assert codec.encode(frame.select(names), null) == written
    assert codec.encode(decoded.frame.select(names), decoded.null) == written
    assert codec.to_python(decoded.frame.select(names), decoded.null) == given_values


@pytest.mark.parametrize("name", VALUES)
def test_bytes_of_something_else_are_bad_and_leave_the_others_alone(name: str) -> None:
    codec = VALUES[name][0].columns
    assert codec is not None
    decoded = codec.decode_list([b"?"])
    assert [row for row, _ in decoded.bad] == [0]
    assert decoded.null.to_list() == [False]
