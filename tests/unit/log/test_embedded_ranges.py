"""Whatever is appended, any range of an embedded log is what a plain list says."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.budget import examples

from hayase.core.records import Headers, TopicPartition
from hayase.log.embedded import blob, reader
from hayase.log.embedded.log import EmbeddedLog
from hayase.log.partitioning import PartitionRows
from hayase.log.protocol import LogConfig, OutputBatch

PARTITIONS = 3
Row = tuple[bytes | None, bytes | None, int, Headers]

small = st.none() | st.binary(max_size=5)
rows = st.tuples(
    small,
    small,
    st.integers(0, 40),
    st.lists(st.tuples(st.sampled_from(["a", "b"]), small), max_size=2).map(tuple),
)
appends = st.lists(st.lists(st.tuples(st.integers(0, PARTITIONS - 1), rows), max_size=12), max_size=8)


@pytest.fixture(scope="module", autouse=True)
def small_batches() -> Iterator[None]:
    """Batches are cut after few records, so that short sequences have many borders."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blob, "MAX_RECORDS", 4)
        patch.setattr(blob, "MAX_BYTES", 120)
        patch.setattr(reader, "_BATCH_RECORDS", 6)
        patch.setattr(reader, "_BATCH_BYTES", 300)
        patch.setattr(reader, "_FEW", 2)
        yield


def _as_batch(part: list[tuple[int, Row]]) -> OutputBatch:
    return OutputBatch(
        "t",
        [row[0] for _, row in part],
        [row[1] for _, row in part],
        [row[2] for _, row in part],
        np.array([partition for partition, _ in part], dtype=np.int32),
        [row[3] for _, row in part],
    )


def _fetch(log_reader: reader.EmbeddedReader, partition: int, start: int, end: int) -> list[tuple[int, Row]]:
    found: list[tuple[int, Row]] = []
    for part in log_reader.fetch(TopicPartition("t", partition), start, end):
        headers = part.headers if part.headers is not None else [()] * len(part)
        columns = zip(part.keys, part.values, part.timestamps_ms.tolist(), headers, strict=True)
        found += zip(part.offsets.tolist(), columns, strict=True)
    return found


@settings(max_examples=examples(40), deadline=None)
@given(appends=appends, ranges=st.lists(st.tuples(st.integers(0, 99), st.integers(0, 99)), max_size=10))
def test_every_range_and_time_is_answered_as_by_a_list(
    appends: list[list[tuple[int, Row]]], ranges: list[tuple[int, int]]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        log = EmbeddedLog(LogConfig("embedded", folder, {"fsync": "false"}))
        log.create_topic("t", PARTITIONS)
        writer, log_reader = log.writer(), log.reader()
        model: list[list[Row]] = [[] for _ in range(PARTITIONS)]
        for part in appends:
            writer.append([_as_batch(part)])
            for partition, row in part:
                model[partition].append(row)
        for partition, expected in enumerate(model):
            where = TopicPartition("t", partition)
            assert log.end_offsets([where]) == {where: len(expected)}
            numbered = list(enumerate(expected))
            assert _fetch(log_reader, partition, 0, len(expected)) == numbered
            for one, other in ranges:
                low, high = sorted((one % (len(expected) + 1), other % (len(expected) + 1)))
                assert _fetch(log_reader, partition, low, high) == numbered[low:high]
            for time_ms in range(42):
                first = next((offset for offset, row in numbered if row[2] >= time_ms), len(expected))
                assert log.offsets_for_time({where: time_ms}) == {where: first}
        log.close()


def test_a_long_append_is_cut_into_stored_batches_of_bounded_size(tmp_path: Path) -> None:
    log = EmbeddedLog(LogConfig("embedded", str(tmp_path), {"fsync": "false"}))
    log.create_topic("t", 1)
    log.writer().append([_as_batch([(0, (b"k", b"%d" % index, 1, ())) for index in range(50)])])
    sizes = [len(part) for part in log.reader().fetch(TopicPartition("t", 0), 0, 50)]
    assert sum(sizes) == 50
    assert max(sizes) <= 6
    log.close()


def test_a_long_append_becomes_batches_of_about_a_megabyte(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blob, "MAX_RECORDS", 65_536)
    monkeypatch.setattr(blob, "MAX_BYTES", 8 << 20)
    values: list[bytes | None] = [b"x" * 1_000] * 5_000
    rows = PartitionRows(0, [b"k"] * 5_000, values, np.zeros(5_000, np.int64), None)
    counts = [each.records for each in blob.encode(rows, "lz4", "t")]
    assert sum(counts) == 5_000 and 900 < max(counts) < 1_100


def test_a_few_records_of_a_large_batch_are_read_without_the_others_and_soon_from_all_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blob, "MAX_RECORDS", 100)
    monkeypatch.setattr(blob, "MAX_BYTES", 1 << 20)
    decoded: list[str] = []
    for name in ("decode", "decode_part"):
        original = getattr(reader, name)
        monkeypatch.setattr(reader, name, lambda *given, f=original, n=name: decoded.append(n) or f(*given))
    log = EmbeddedLog(LogConfig("embedded", str(tmp_path), {"fsync": "false"}))
    log.create_topic("t", 1)
    writer, log_reader = log.writer(), log.reader()
    rows = [(b"k%d" % n, b"v", n, (("number", b"%d" % n),)) for n in range(100)]
    writer.append([_as_batch([(0, row) for row in rows])])
    assert _fetch(log_reader, 0, 7, 9) == [(7, rows[7]), (8, rows[8])]
    assert _fetch(log_reader, 0, 9, 10) == [(9, rows[9])]
    assert _fetch(log_reader, 0, 10, 12) == [(10, rows[10]), (11, rows[11])]
    assert decoded == ["decode_part", "decode"]
    writer.close()
    log.close()
