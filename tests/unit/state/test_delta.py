"""A delta comes back from its bytes as it was, or not at all."""

from __future__ import annotations

import dataclasses
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.budget import examples

from hayase.core.errors import StateError
from hayase.core.records import Headers
from hayase.log.protocol import OutputBatch
from hayase.state.delta.changes import StateChanges, StoreChanges
from hayase.state.delta.delta import Delta
from hayase.state.delta.journal import EdgeRow, Journal

maybe_bytes = st.one_of(st.none(), st.binary(max_size=5))
names = st.text(max_size=3)
ranges = st.lists(st.tuples(st.binary(max_size=3), maybe_bytes), max_size=2)


@st.composite
def store_changes(draw: st.DrawFn) -> StoreChanges:
    entries = draw(st.dictionaries(st.binary(max_size=4), maybe_bytes, max_size=4))
    return StoreChanges(draw(ranges), list(entries), list(entries.values()))


@st.composite
def output_batches(draw: st.DrawFn) -> OutputBatch:
    size = draw(st.integers(0, 4))

    def some(items: st.SearchStrategy[object]) -> st.SearchStrategy[list[object]]:
        return st.lists(items, min_size=size, max_size=size)

    headers = st.lists(st.tuples(names, maybe_bytes), max_size=2).map(tuple)
    partitions = draw(st.one_of(st.none(), some(st.integers(0, 100))))
    return OutputBatch(
        draw(names),
        draw(some(maybe_bytes)),
        draw(some(maybe_bytes)),
        draw(some(st.integers(0, 2**62))),
        None if partitions is None else np.array(partitions, np.int32),
        draw(st.one_of(st.none(), some(headers))),
    )


rows = st.builds(EdgeRow, names, names, names, st.integers(0, 9), st.binary(max_size=9))
journals = st.builds(Journal, st.lists(output_batches(), max_size=3), st.lists(rows, max_size=3), st.binary(max_size=3))
changes = st.dictionaries(st.tuples(names, names), store_changes(), max_size=3).map(StateChanges)
deltas = st.builds(
    Delta, names, names, names, st.integers(0, 2**60), names, st.integers(-1, 2**60), names, changes, journals
)


def plain(delta: Delta) -> dict[str, object]:
    """All of a delta as data that can be compared."""
    data = dataclasses.asdict(delta)
    data.pop("_bytes")
    for batch in data["journal"]["outputs"]:
        partitions = batch["partitions"]
        batch["partitions"] = None if partitions is None else (partitions.dtype, partitions.tolist())
    return data


@given(deltas)
@settings(max_examples=examples(150), deadline=None)
def test_a_delta_comes_back_from_its_bytes_as_it_was(delta: Delta) -> None:
    again = Delta.from_bytes(delta.to_bytes())
    assert plain(again) == plain(delta)
    assert again.digest == delta.digest


def example() -> Delta:
    journal = Journal([OutputBatch("t", [b"k"], [b"v"], [1])], [EdgeRow("1_0", "e", "0_0", 0, b"rows")], b"s")
    stores = StateChanges({("0_0", "counts"): StoreChanges([], [b"k"], [b"v"])})
    return Delta("app", "lineage", "b0", 7, "record", 6, "before", stores, journal)


def test_any_damage_is_an_error_that_names_bundle_and_epoch() -> None:
    data = example().to_bytes()
    damaged = [data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :] for at in range(len(data))]
    damaged += [data[:length] for length in range(len(data))]
    for bad in [*damaged, data + b"\x00"]:
        with pytest.raises(StateError) as raised:
            Delta.from_bytes(bad, bundle="b0", epoch=7)
        assert raised.value.condition == "DELTA_CORRUPT"
        assert raised.value.context == {"bundle": "b0", "epoch": 7}


def test_other_changes_have_another_digest() -> None:
    other = example()
    other.changes.stores[("0_0", "counts")].values[0] = b"w"
    assert other.digest != example().digest
    assert example().digest == example().digest


def test_reading_the_changes_alone_does_not_decode_the_headers_of_what_was_sent() -> None:
    count = 2_000
    headers: list[Headers] = [tuple((f"name{number}", b"value") for number in range(10))] * count
    nothing: list[bytes | None] = [b""] * count
    batch = OutputBatch("t", nothing, nothing, [1] * count, None, headers)
    data = Delta("app", "c", "b0", 7, "record", 6, "before", StateChanges(), Journal([batch])).to_bytes()
    took: dict[bool, int] = {}
    for journal in (True, False):
        tracemalloc.start()
        Delta.from_bytes(data, journal=journal)
        took[journal] = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert took[True] > 10 * took[False]
