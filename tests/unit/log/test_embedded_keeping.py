"""Whatever is appended and whenever it is cleaned: what must stay stays, as it was."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.budget import examples
from tests.unit.log.keeping import WHERE, Row, bounds, clean_bytes, kept_log, local_bytes, put, rows, stored_bytes

from hayase.core.records import Headers
from hayase.log.embedded import blob, partition, reader, retention
from hayase.log.embedded.log import EmbeddedLog

DELETE_RETENTION_MS = 30

keys = st.sampled_from([b"a", b"b", b"c", b"d"])
headers = st.lists(st.tuples(st.sampled_from(["h", "i"]), st.none() | st.binary(max_size=2)), max_size=2).map(tuple)
records = st.tuples(keys, st.none() | st.binary(max_size=4), st.integers(0, 60), headers)
appends = st.lists(records, min_size=1, max_size=9)
cleanings = st.integers(0, 60)  # time goes on by so much, then the log is cleaned
actions = st.lists(appends | cleanings, max_size=12)
ranges = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)), max_size=5)


@pytest.fixture(scope="module", autouse=True)
def small_batches() -> Iterator[None]:
    """Batches are cut after few records, so that short sequences have many borders."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blob, "MAX_RECORDS", 4)
        patch.setattr(blob, "MAX_BYTES", 120)
        patch.setattr(reader, "_BATCH_RECORDS", 6)
        patch.setattr(reader, "_BATCH_BYTES", 300)
        patch.setattr(partition, "_CHUNK_BYTES", 100)
        patch.setattr(retention, "_AT_A_TIME", 2)
        yield


@dataclass
class Model:
    """Everything that was ever appended, and when it was first cleaned."""

    rows: list[Row] = field(default_factory=list)
    first_cleaned_ms: dict[int, int] = field(default_factory=dict)
    now_ms: int = 0

    def append(self, log: EmbeddedLog, part: list[tuple[bytes, bytes | None, int, Headers]]) -> None:
        put(log, *[(key, value, time) for key, value, time, _ in part], headers=[row[3] for row in part])
        self.rows += [
            Row(len(self.rows) + index, key, value, time, record_headers)
            for index, (key, value, time, record_headers) in enumerate(part)
        ]

    def clean(self, log: EmbeddedLog, by_ms: int) -> None:
        self.now_ms += by_ms
        log.clean(self.now_ms)
        for row in self.rows:
            self.first_cleaned_ms.setdefault(row.offset, self.now_ms)

    def last_of_each_key(self) -> list[Row]:
        return sorted({row.key: row for row in self.rows}.values())


def _play(log: EmbeddedLog, todo: list[list[tuple[bytes, bytes | None, int, Headers]] | int]) -> Iterator[Model]:
    model = Model()
    for action in todo:
        if isinstance(action, int):
            model.clean(log, action)
        else:
            model.append(log, action)
        yield model


def _check_any_range(log: EmbeddedLog, found: list[Row], wanted: list[tuple[int, int]]) -> None:
    low, high = bounds(log)
    for one, other in wanted:
        start, end = sorted((low + one % (high - low + 1), low + other % (high - low + 1)))
        assert rows(log, start, end) == [row for row in found if start <= row.offset < end]
    for time_ms in range(0, 62, 7):
        first = next((row.offset for row in found if row.timestamp_ms >= time_ms), high)
        assert log.offsets_for_time({WHERE: time_ms}) == {WHERE: first}


@settings(max_examples=examples(60), deadline=None)
@given(todo=actions, ratio=st.sampled_from(["0", "0.5"]), lag_ms=st.sampled_from([0, 0, 20]), wanted=ranges)
def test_compaction_keeps_the_last_value_of_each_key_as_it_was(
    todo: list[list[tuple[bytes, bytes | None, int, Headers]] | int],
    ratio: str,
    lag_ms: int,
    wanted: list[tuple[int, int]],
) -> None:
    config = {
        "cleanup.policy": "compact",
        "min.cleanable.dirty.ratio": ratio,
        "min.compaction.lag.ms": str(lag_ms),
        "delete.retention.ms": str(DELETE_RETENTION_MS),
    }
    with kept_log(config) as log:
        for model in _play(log, todo):
            found = rows(log)
            assert local_bytes(log) == stored_bytes(log)
            offsets = [row.offset for row in found]
            assert offsets == sorted(set(offsets))
            assert all(model.rows[row.offset] == row for row in found)
            assert bounds(log) == (0, len(model.rows))
            missing = [row for row in model.last_of_each_key() if row.offset not in offsets]
            for row in missing:
                assert row.value is None
                assert model.now_ms >= model.first_cleaned_ms[row.offset] + DELETE_RETENTION_MS
            young = [row for row in model.rows if row.timestamp_ms > model.now_ms - lag_ms]
            assert not lag_ms or {row.offset for row in young} <= set(offsets)
        _check_any_range(log, rows(log), wanted)


@settings(max_examples=examples(40), deadline=None)
@given(todo=actions)
def test_a_pass_over_everything_leaves_each_key_once(
    todo: list[list[tuple[bytes, bytes | None, int, Headers]] | int],
) -> None:
    with kept_log({"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0"}) as log:
        *_, model = _play(log, [*todo, 1])
        assert rows(log) == model.last_of_each_key()
        assert clean_bytes(log) == local_bytes(log) == stored_bytes(log)
        assert not log.clean(model.now_ms)


@settings(max_examples=examples(50), deadline=None)
@given(
    todo=actions,
    bound=st.sampled_from([{"retention.ms": "25"}, {"retention.bytes": "150"}]),
    tiered=st.booleans(),
    wanted=ranges,
)
def test_retention_removes_nothing_newer_than_its_bound_and_nothing_from_the_middle(
    todo: list[list[tuple[bytes, bytes | None, int, Headers]] | int],
    bound: Mapping[str, str],
    tiered: bool,
    wanted: list[tuple[int, int]],
) -> None:
    tier = {"remote.storage.enable": "true", "segment.ms": "1", "local.retention.ms": "10"} if tiered else {}
    if tiered and "retention.bytes" in bound:
        tier["local.retention.bytes"] = "50"
    with kept_log({**bound, **tier}) as log:
        for model in _play(log, todo):
            start, end = bounds(log)
            assert end == len(model.rows)
            assert rows(log) == model.rows[start:]
            assert local_bytes(log) == stored_bytes(log)
            if "retention.ms" in bound:
                assert all(row.timestamp_ms < model.now_ms - 25 for row in model.rows[:start])
            elif start:
                (stored,) = log.storage("t")
                assert stored.local_bytes + sum(part.bytes for part in stored.remote_parts) >= 150
        _check_any_range(log, rows(log), wanted)


@settings(max_examples=examples(40), deadline=None)
@given(todo=actions, segment_bytes=st.sampled_from(["14", "150", "100000"]), wanted=ranges)
def test_tiers_are_invisible_to_the_reader(
    todo: list[list[tuple[bytes, bytes | None, int, Headers]] | int],
    segment_bytes: str,
    wanted: list[tuple[int, int]],
) -> None:
    tier = {"remote.storage.enable": "true", "segment.ms": "5", "local.retention.ms": "10"}
    with kept_log({**tier, "segment.bytes": segment_bytes}) as log:
        for model in _play(log, todo):
            assert rows(log) == model.rows
        _check_any_range(log, rows(log), wanted)
