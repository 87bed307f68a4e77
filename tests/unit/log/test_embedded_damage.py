"""What is damaged on disk is an error that says where, never other records, and never the end of the process."""

from __future__ import annotations

import itertools
import os
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.log.damage import Change, changed_at, changes, hide_last_row, put_stored, stored
from tests.unit.log.keeping import WHERE, Row, bounds, put_each, rows

from hayase.core.errors import LogError
from hayase.core.records import TopicPartition
from hayase.core.time import ManualClock
from hayase.log.embedded.log import EmbeddedLog
from hayase.log.protocol import LogConfig, Marker, OutputBatch

PAGE = 4096
CODECS = ("uncompressed", "lz4", "zstd", "gzip", "snappy")
_OLD_CODECS = {"uncompressed": 0, "lz4": 1, "zstd": 2, "gzip": 3, "snappy": 4}
_ARROW_NAMES = {"lz4": "lz4_raw", "zstd": "zstd", "gzip": "gzip", "snappy": "snappy"}


@contextmanager
def opened(folder: Path) -> Iterator[EmbeddedLog]:
    log = EmbeddedLog(
        LogConfig("embedded", str(folder), {"fsync": "false", "cleaner.interval.ms": "0", "map.size": str(1 << 26)}),
        clock=ManualClock(1_000),
    )
    try:
        yield log
    finally:
        log.close()


def written(folder: Path, config: dict[str, str], *, headers: bool = True) -> list[Row]:
    """Three stored batches of ten records."""
    with opened(folder) as log:
        log.create_topic("t", 1, config)
        for start in (0, 10, 20):
            keys: list[bytes | None] = [b"key-%d" % (n % 4) if n % 5 else None for n in range(start, start + 10)]
            if config.get("cleanup.policy") == "compact":
                keys = [key or b"null" for key in keys]
            values: list[bytes | None] = [b"value-%d " % n * 5 if n % 7 else None for n in range(start, start + 10)]
            some = [(("h", b"%d" % n), ("none", None)) for n in range(10)] if headers else None
            log.writer().append(
                [OutputBatch("t", keys, values, list(range(start, start + 10)), np.zeros(10, dtype=np.int32), some)]
            )
        return rows(log)


def error_of(call: Callable[[], object]) -> LogError:
    with pytest.raises(LogError) as error:
        call()
    assert error.value.condition in ("LOG_DAMAGED", "LOG_FORMAT"), error.value
    return error.value


def read_or_damaged(call: Callable[[], object], folder: Path, offset: int) -> object:
    """What a call returns; `None` if it is an error that names the place."""
    try:
        return call()
    except LogError as raised:
        error = raised
    assert error.condition in ("LOG_DAMAGED", "LOG_FORMAT"), error
    names_the_place(error, folder, offset)
    return None


def names_the_place(error: LogError, folder: Path, offset: int) -> None:
    assert error.context["topic"] == "t" and error.context["partition"] == 0 and error.context["offset"] == offset
    assert str(folder) in error.context["location"]
    assert "copy" in error.message


@given(st.sampled_from(CODECS), st.integers(0, 2), changes)
def test_whatever_happens_to_a_stored_batch_its_records_are_not_read_as_others(
    codec: str, which: int, change: Change
) -> None:
    with TemporaryDirectory() as temporary:
        folder = Path(temporary)
        expected = written(folder, {"compression.type": codec})
        key, value = stored(folder, "batches")[which]
        if change(value) == value:
            return
        put_stored(folder, "batches", key, change(value))
        with opened(folder) as log:
            names_the_place(error_of(lambda: rows(log)), folder, which * 10)
            others = [row for row in expected if row.offset // 10 != which]
            assert [*rows(log, 0, which * 10), *rows(log, which * 10 + 10, 30)] == others


@pytest.mark.long
def test_every_single_bit_of_a_stored_batch_is_checked(tmp_path: Path) -> None:
    written(tmp_path, {"compression.type": "uncompressed"}, headers=False)
    key, value = stored(tmp_path, "batches")[1]
    for bit in range(0, len(value) * 8, 1 if len(value) < 400 else 3):
        put_stored(tmp_path, "batches", key, changed_at((bit // 8 + 0.5) / len(value), 1 << bit % 8)(value))
        with opened(tmp_path) as log:
            names_the_place(error_of(lambda: rows(log)), tmp_path, 10)


def test_a_batch_under_the_key_of_another_is_damaged(tmp_path: Path) -> None:
    written(tmp_path, {})
    (_, first), (key, _), _ = stored(tmp_path, "batches")
    put_stored(tmp_path, "batches", key, first)
    with opened(tmp_path) as log:
        names_the_place(error_of(lambda: rows(log)), tmp_path, 10)


@pytest.mark.parametrize(
    ("config", "now_ms"),
    [
        ({"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0"}, 1_000),
        ({"remote.storage.enable": "true", "local.retention.ms": "100", "segment.ms": "1"}, 1_000),
    ],
    ids=["compaction", "tiers"],
)
def test_the_cleaner_does_not_carry_damage_on(tmp_path: Path, config: dict[str, str], now_ms: int) -> None:
    folder = tmp_path / "log"
    if "remote.storage.enable" in config:
        config = {**config, "remote.storage.url": str(tmp_path / "old")}
    written(folder, config)
    key, value = stored(folder, "batches")[1]
    put_stored(folder, "batches", key, changed_at(0.9, 1)(value))
    with opened(folder) as log:
        names_the_place(error_of(lambda: log.clean(now_ms)), folder, 10)
        names_the_place(error_of(lambda: rows(log)), folder, 10)
    assert stored(folder, "batches")[1][1] == changed_at(0.9, 1)(value)


def test_a_damaged_header_does_not_make_retention_remove_records(tmp_path: Path) -> None:
    written(tmp_path, {"retention.ms": "2000"})
    key, value = stored(tmp_path, "batches")[0]
    put_stored(tmp_path, "batches", key, value[:16] + struct.pack("<q", -5_000) + value[24:])
    with opened(tmp_path) as log:
        names_the_place(error_of(lambda: log.clean(1_000)), tmp_path, 0)
        assert bounds(log) == (0, 30)


def test_an_offset_by_time_is_not_taken_from_a_damaged_batch(tmp_path: Path) -> None:
    written(tmp_path, {"compression.type": "uncompressed"})
    key, value = stored(tmp_path, "batches")[1]
    put_stored(tmp_path, "batches", key, changed_at(60 / len(value), 1)(value))
    with opened(tmp_path) as log:
        names_the_place(error_of(lambda: log.offsets_for_time({WHERE: 15})), tmp_path, 10)
        assert log.offsets_for_time({WHERE: 25}) == {WHERE: 25}


def test_records_up_to_a_damaged_batch_can_be_given_up(tmp_path: Path) -> None:
    expected = written(tmp_path, {})
    key, value = stored(tmp_path, "batches")[1]
    put_stored(tmp_path, "batches", key, bytes(len(value)))
    with opened(tmp_path) as log:
        log.delete_records({WHERE: 20})
        assert bounds(log) == (20, 30)
        assert rows(log) == expected[20:]


def _metadata(folder: Path) -> dict[str, Callable[[EmbeddedLog], object]]:
    """A log with a row in each table of metadata; table → what reads it."""
    written(folder / "log", {"remote.storage.enable": "true", "remote.storage.url": str(folder / "old"),
                             "local.retention.ms": "985", "segment.ms": "1"})  # fmt: skip
    with opened(folder / "log") as log:
        log.clean(1_000)
        log.commit_group_offsets("group", {WHERE: 7})
        log.writer().publish_epoch("app", "0-0", Marker("L", 3, "d"), [])
    return {
        "topics": lambda log: log.topic_config("t"),
        "partitions": lambda log: log.end_offsets([WHERE]),
        "times": lambda log: [log.offsets_for_time({WHERE: time}) for time in range(30)],
        "remote": rows,
        "markers": lambda log: log.writer().publish_epoch("app", "0-0", Marker("L", 3, "d"), []),
        "groups": lambda log: log.group_offsets("group"),
    }


@given(st.sampled_from(["topics", "partitions", "times", "remote", "markers", "groups"]), changes)
def test_whatever_happens_to_a_row_of_metadata_it_is_not_read_as_another(table: str, change: Change) -> None:
    with TemporaryDirectory() as temporary:
        folder = Path(temporary)
        reads = _metadata(folder)
        key, value = stored(folder / "log", table)[0]
        if change(value) == value:
            return
        put_stored(folder / "log", table, key, change(value))
        with opened(folder / "log") as log:
            error = error_of(lambda: reads[table](log))
            assert "log/data.mdb" in error.context["location"] and "copy" in error.message
            assert error.context["table"] == table


@pytest.mark.parametrize("table", ["topics", "markers"])
def test_a_row_that_is_under_a_damaged_key_is_not_taken_for_one_that_never_was(tmp_path: Path, table: str) -> None:
    reads = _metadata(tmp_path)
    key, value = stored(tmp_path / "log", table)[0]
    put_stored(tmp_path / "log", table, key, value, under=bytes([key[0] ^ 1]) + key[1:])
    with opened(tmp_path / "log") as log:
        assert error_of(lambda: reads[table](log)).context["table"] == table


def test_a_partition_without_its_row_is_damaged(tmp_path: Path) -> None:
    reads = _metadata(tmp_path)
    ((key, _),) = stored(tmp_path / "log", "partitions")
    put_stored(tmp_path / "log", "partitions", key, None)
    with opened(tmp_path / "log") as log:
        assert error_of(lambda: reads["partitions"](log)).context["topic"] == "t"


@pytest.mark.parametrize("which", [0, 1, 2])
def test_stored_batches_that_cannot_be_found_are_damage_and_not_the_end_of_the_records(
    tmp_path: Path, which: int
) -> None:
    expected = written(tmp_path, {})
    put_stored(tmp_path, "batches", stored(tmp_path, "batches")[which][0], None)
    with opened(tmp_path) as log:
        error = error_of(lambda: rows(log))
        names_the_place(error, tmp_path, which * 10)
        assert f"to {which * 10 + 9} are missing" in error.message
        assert rows(log, 0, which * 10) == expected[: which * 10]
        assert rows(log, which * 10 + 10, 30) == expected[which * 10 + 10 :]
        log.delete_records({WHERE: which * 10 + 10})
        assert rows(log) == expected[which * 10 + 10 :]


def test_a_gap_in_a_compacted_topic_is_damage_where_compaction_did_not_make_it(tmp_path: Path) -> None:
    with opened(tmp_path) as log:
        log.create_topic("t", 1, {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0"})
        put_each(log, (b"a", b"1", 10), (b"b", b"x" * 9_000_000, 20), (b"a", b"2", 30), (b"c", b"y" * 9_000_000, 40))
        log.clean(1_000)
        expected = rows(log)
        assert [row.offset for row in expected] == [1, 2, 3]
    put_stored(tmp_path, "batches", stored(tmp_path, "batches")[1][0], None)
    with opened(tmp_path) as log:
        names_the_place(error_of(lambda: rows(log, 0, 1)), tmp_path, 0)


def test_parts_of_a_tier_that_cannot_be_found_are_damage_and_not_the_end_of_the_records(tmp_path: Path) -> None:
    reads = _metadata(tmp_path)
    put_stored(tmp_path / "log", "remote", stored(tmp_path / "log", "remote")[0][0], None)
    with opened(tmp_path / "log") as log:
        names_the_place(error_of(lambda: reads["remote"](log)), tmp_path / "log", 0)


@pytest.mark.parametrize("table", ["topics", "markers", "groups"])
def test_rows_of_metadata_that_a_damaged_page_hides_are_missed(tmp_path: Path, table: str) -> None:
    reads = {**_metadata(tmp_path), "topics": lambda log: log.topics(), "markers": lambda log: log.markers("app")}
    with opened(tmp_path / "log") as log:
        log.create_topic("unseen-topic", 1)
        log.commit_group_offsets("group", {TopicPartition("unseen-topic", 0): 1})
        log.writer().publish_epoch("app", "0-1", Marker("L", 3, "d"), [])
    assert len(stored(tmp_path / "log", table)) == 2
    hide_last_row(tmp_path / "log", stored(tmp_path / "log", table)[-1][0])
    with opened(tmp_path / "log") as log:
        assert error_of(lambda: reads[table](log)).context["table"] == table


@given(st.integers(0, 30), st.integers(0, 30), changes)
def test_whatever_happens_to_a_file_of_a_tier_its_records_are_not_read_as_others(
    one: int, other: int, change: Change
) -> None:
    start, end = sorted((one, other))
    with TemporaryDirectory() as temporary:
        folder = Path(temporary)
        config = {"remote.storage.enable": "true", "local.retention.ms": "1", "segment.ms": "1"}
        expected = written(folder / "log", {**config, "remote.storage.url": str(folder / "old")})
        with opened(folder / "log") as log:
            assert log.clean(1_000).moved_parts == 1
            (file,) = folder.rglob("*.parquet")
            assert rows(log) == expected
        whole = file.read_bytes()
        file.write_bytes(change(whole))
        if change(whole) == whole:
            return
        with opened(folder / "log") as log:
            assert read_or_damaged(lambda: rows(log, start, end), file, 0) in (None, expected[start:end])
            assert read_or_damaged(lambda: log.offsets_for_time({WHERE: start}), file, 0) in (None, {WHERE: start})


def _old_blob(batch: list[Row], codec: str, *, gaps: bool) -> bytes:
    """As versions before checksums wrote them."""
    payload = np.array([row.timestamp_ms for row in batch], dtype="<i8").tobytes()
    if gaps:
        payload += np.array([row.offset - batch[0].offset for row in batch], dtype="<u4").tobytes()
    payload += msgspec.msgpack.encode(
        ([row.key for row in batch], [row.value for row in batch], [row.headers for row in batch])
    )
    packed = payload if codec == "uncompressed" else pa.Codec(_ARROW_NAMES[codec]).compress(payload, asbytes=True)
    largest = max(row.timestamp_ms for row in batch)
    header = struct.pack("<BBxxIQq", 1 + gaps, _OLD_CODECS[codec], len(batch), len(payload), largest)
    return header + (struct.pack("<BxxxIq", 1, 10, -1) if gaps else b"") + packed


@pytest.mark.parametrize(("codec", "gaps"), list(itertools.product(CODECS, (False, True))))
def test_batches_without_checksums_are_still_read(tmp_path: Path, codec: str, gaps: bool) -> None:
    expected = written(tmp_path, {})
    for number, (key, _) in enumerate(stored(tmp_path, "batches")):
        put_stored(tmp_path, "batches", key, _old_blob(expected[number * 10 : number * 10 + 10], codec, gaps=gaps))
    with opened(tmp_path) as log:
        assert rows(log) == expected
        assert log.offsets_for_time({WHERE: 15}) == {WHERE: 15}


@given(st.sampled_from(CODECS), st.booleans(), changes)
def test_damage_of_a_batch_without_checksum_is_at_worst_an_error_of_the_log(
    codec: str, gaps: bool, change: Change
) -> None:
    with TemporaryDirectory() as temporary:
        folder = Path(temporary)
        expected = written(folder, {})
        key, _ = stored(folder, "batches")[1]
        put_stored(folder, "batches", key, change(_old_blob(expected[10:20], codec, gaps=gaps)))
        with opened(folder) as log:
            read_or_damaged(lambda: rows(log), folder, 10)


def tree_pages(file: Path) -> list[int]:
    """The pages of trees in a file that was just written: branches and leaves."""
    data = file.read_bytes()
    flags = {at // PAGE: struct.unpack_from("<QHH", data, at) for at in range(2 * PAGE, len(data), PAGE)}
    return [page for page, (number, _, flag) in flags.items() if number == page and flag & 3]


def outcome_of(folder: Path) -> int:
    """How a process ends that reads all of a log and writes to it: 0 it could, 1 `LOG_DAMAGED`, 2 it lost records."""
    pid = os.fork()
    if pid:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    try:
        with opened(folder) as log:
            log.create_topic("u", 1)
            os._exit(0 if len(rows(log)) == 40 else 2)
    except LogError as error:
        os._exit(1 if error.condition == "LOG_DAMAGED" else 3)
    finally:
        os._exit(4)


@pytest.mark.long
@pytest.mark.parametrize("fill", [b"\0", b"\xff"])
def test_a_page_of_the_file_that_was_overwritten_is_an_error_and_not_the_end_of_the_process(
    tmp_path: Path, fill: bytes
) -> None:
    with opened(tmp_path) as log:
        log.create_topic("t", 1)
        for number in range(40):
            log.writer().append([OutputBatch("t", [b"%d" % number], [os.urandom(900)], [number])])
    file = tmp_path / "data.mdb"
    whole = file.read_bytes()
    outcomes = {}
    for page in tree_pages(file):
        file.write_bytes(whole[: page * PAGE] + fill * PAGE + whole[(page + 1) * PAGE :])
        outcomes[page] = outcome_of(tmp_path)
    for page in (0, 1):
        file.write_bytes(whole[: page * PAGE] + fill * PAGE + whole[(page + 1) * PAGE :])
        assert outcome_of(tmp_path) == 1, page
    assert set(outcomes.values()) == {0, 1}, outcomes  # pages that no tree has any more do not matter
