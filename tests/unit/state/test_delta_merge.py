"""Deltas put together do to a store what they do one by one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hayase.core.errors import StateError
from hayase.state.delta.changes import StateChanges, StoreChanges
from hayase.state.delta.delta import Delta
from hayase.state.delta.delta_merge import DeltaMerge
from hayase.state.environment.base import MemoryBase

KEY = ("0_0", "s")
keys = st.binary(min_size=1, max_size=2)
ranges = st.tuples(keys, st.none() | keys).filter(lambda found: found[1] is None or found[0] < found[1])
changes = st.builds(
    lambda deleted, written: StoreChanges(deleted, list(written), list(written.values())),
    st.lists(ranges, max_size=2),
    st.dictionaries(keys, st.none() | st.binary(max_size=2), max_size=8),
)


def deltas(all_changes: list[StoreChanges]) -> list[Delta]:
    made: list[Delta] = []
    for number, each in enumerate(all_changes):
        previous = (made[-1].epoch, made[-1].digest) if made else (-1, "")
        made.append(Delta("app", "l", "b", number, "r", *previous, StateChanges({KEY: each})))
    return made


@given(st.lists(changes, min_size=1, max_size=8), st.integers(0, 7))
def test_a_chain_does_what_its_deltas_do(all_changes: list[StoreChanges], before: int) -> None:
    one_by_one, together = MemoryBase(), MemoryBase()
    made = deltas(all_changes)
    merge = DeltaMerge()
    for number, delta in enumerate(made):
        one_by_one.apply(delta.changes.stores[KEY])
        if number < before:
            together.apply(delta.changes.stores[KEY])
        else:
            merge.add(delta)
    if merge:
        step = merge.take()
        assert step.end == (made[-1].epoch, made[-1].digest)
        assert step.delta_bytes == sum(len(delta.to_bytes()) for delta in made[before:])
        for piece in step.pieces():
            together.apply(piece.stores[KEY])
    assert list(together.range(None, None, False)) == list(one_by_one.range(None, None, False))
    assert not merge


def test_a_delta_that_does_not_follow_is_refused() -> None:
    first, _, third = deltas([StoreChanges([], [b"k"], [b"%d" % n]) for n in range(3)])
    merge = DeltaMerge()
    merge.add(first)
    with pytest.raises(StateError) as raised:
        merge.add(third)
    assert raised.value.condition == "DELTA_DOES_NOT_FIT"


def test_deleting_ranges_of_what_holds_much_is_left_to_the_store() -> None:
    large = StoreChanges([], [b"%06d" % n for n in range(30_000)], [b"v"] * 30_000)
    first, second = deltas([large, StoreChanges([(b"0", b"1")], [], [])])
    merge = DeltaMerge()
    merge.add(first)
    assert not merge.takes(second)


@given(st.lists(changes, min_size=1, max_size=8))
def test_what_is_held_stays_right_when_it_is_made_smaller_on_the_way(all_changes: list[StoreChanges]) -> None:
    one_by_one, together = MemoryBase(), MemoryBase()
    merge = DeltaMerge()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("hayase.state.delta.delta_merge._HELD_MAX", 2)
        for delta in deltas(all_changes):
            one_by_one.apply(delta.changes.stores[KEY])
            merge.add(Delta.from_bytes(delta.to_bytes(), journal=False, changes=False))
            if merge.full():
                for piece in merge.take().pieces():
                    together.apply(piece.stores[KEY])
    for piece in merge.take().pieces() if merge else ():
        together.apply(piece.stores[KEY])
    assert list(together.range(None, None, False)) == list(one_by_one.range(None, None, False))
