"""The overlay over any base, through any sequence of operations and epochs, is a dict."""

from __future__ import annotations

import itertools
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Protocol

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.budget import examples

from hayase.state.delta.delta import Delta
from hayase.state.environment.bundle import BundleState
from hayase.state.environment.epoch import EpochState
from hayase.state.environment.layout import HEAD
from hayase.state.environment.memory import MemoryState
from hayase.state.environment.spill import EpochSpace
from hayase.storage.lmdb_env import close_environment


class State(Protocol):
    epoch: int
    digest: str

    def begin(self) -> EpochState: ...
    def apply(self, delta: Delta) -> bool: ...
    def close(self) -> None: ...


long_heads = st.sampled_from([b"h" * (HEAD - 1), b"h" * HEAD, b"h" * (HEAD + 1), b"h" * (HEAD - 1) + b"i"])
tails = st.binary(max_size=3)
keys = st.one_of(
    st.binary(max_size=2),
    st.sampled_from([b"", b"\x00", b"\xff", b"\xff\xff", b"a", b"ab", b"b"]),
    st.builds(lambda head, tail: head + tail, long_heads, tails),
    st.builds(lambda head, tail: head + tail * 150, long_heads, tails),
)
values = st.binary(max_size=4)
bounds = st.one_of(st.none(), keys)
operations = st.lists(
    st.one_of(
        st.tuples(st.just("put"), keys, values),
        st.tuples(st.just("delete"), keys),
        st.tuples(st.just("put_many"), st.lists(st.tuples(keys, st.one_of(st.none(), values)), max_size=5)),
        st.tuples(st.just("get_many"), st.lists(keys, max_size=5)),
        st.tuples(st.just("range"), bounds, bounds, st.booleans()),
        st.tuples(st.just("delete_range"), bounds, bounds),
        st.tuples(st.just("spill")),
        st.tuples(st.just("next_epoch")),
        st.tuples(st.just("abandon_epoch")),
    ),
    max_size=40,
)
folders = itertools.count()


def inside(key: bytes, start: bytes | None, end: bytes | None) -> bool:
    return (start is None or key >= start) and (end is None or key < end)


def next_delta(state: State, epoch: EpochState) -> Delta:
    return Delta("app", "lineage", "b0", epoch.epoch + 1, "r", epoch.epoch, epoch.digest, epoch.changes())


def check(state: State, script: list[tuple[object, ...]]) -> None:
    with TemporaryDirectory() as folder, EpochSpace(Path(folder), 1) as space:
        check_with(state, script, space)


def check_with(state: State, script: list[tuple[object, ...]], space: EpochSpace) -> None:
    applied: dict[bytes, bytes] = {}
    model: dict[bytes, bytes] = {}
    epoch = state.begin()
    # Other stores left and right of it, which no operation may touch or show.
    names = ("a", "m", "z")
    for name in names:
        epoch.task("0_0").store(name).put(b"x", b"neighbour")
    model[b"x"] = b"neighbour"
    applied = dict(model)
    script = [("next_epoch",), *script, ("next_epoch",), ("range", None, None, False)]
    for operation, *arguments in script:
        store = epoch.task("0_0").store("m")
        match operation, arguments:
            case "put", [key, value]:
                store.put(key, value)
                model[key] = value
            case "delete", [key]:
                store.put(key, None)
                model.pop(key, None)
            case "put_many", [items]:
                store.put_many([key for key, _ in items], [value for _, value in items])
                for key, value in items:
                    if value is None:
                        model.pop(key, None)
                    else:
                        model[key] = value
            case "get_many", [some]:
                assert store.get_many(some) == [model.get(key) for key in some]
                assert [store.get(key) for key in some] == [model.get(key) for key in some]
            case "range", [start, end, reverse]:
                expected = sorted((item for item in model.items() if inside(item[0], start, end)), reverse=reverse)
                found = store.range(start, end, reverse=reverse)
                store.put(b"ab", b"written while iterating")
                if reverse:
                    epoch.spill(space.maps)
                if b"ab" in model:
                    store.put(b"ab", model[b"ab"])
                else:
                    store.put(b"ab", None)
                assert list(found) == expected
            case "delete_range", [start, end]:
                store.delete_range(start, end)
                model = {key: value for key, value in model.items() if not inside(key, start, end)}
            case "spill", []:
                epoch.spill(space.maps)
            case "next_epoch", []:
                delta = next_delta(state, epoch)
                epoch.close()
                assert state.apply(Delta.from_bytes(delta.to_bytes()))
                epoch = state.begin()
                applied = dict(model)
                assert epoch.task("0_0").store("m").approximate_count() == len(model)
            case "abandon_epoch", []:
                epoch.close()
                epoch = state.begin()
                model = dict(applied)
    for name in ("a", "z"):
        assert list(epoch.task("0_0").store(name).range()) == [(b"x", b"neighbour")]
    epoch.close()
    state.close()
    if isinstance(state, BundleState):
        close_environment(state.path)


@given(operations)
@settings(max_examples=examples(120), deadline=None)
def test_a_store_in_memory_is_a_dict_whatever_is_done_to_it(script: list[tuple[object, ...]]) -> None:
    check(MemoryState(), script)


@pytest.mark.timeout(120)
@given(script=operations)
@settings(max_examples=examples(120), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_store_in_lmdb_is_a_dict_whatever_is_done_to_it(tmp_path: Path, script: list[tuple[object, ...]]) -> None:
    path = tmp_path / f"state-{next(folders)}"
    check(BundleState(path, application_id="app", checkpoint_id="lineage", bundle="b0"), script)
