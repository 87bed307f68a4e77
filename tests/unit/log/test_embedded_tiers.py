"""Tiers: old records in Parquet files, read as if they were still in the log's folder."""

from __future__ import annotations

import threading
import uuid
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from tests.unit.log.keeping import WHERE, Row, bounds, kept_log, local_bytes, put, put_each, rows

from hayase.core.errors import ConfigError, LogError, SourceRangeLostError
from hayase.log.embedded import part_reader

TIERED = {"remote.storage.enable": "true", "local.retention.ms": "100", "segment.ms": "1"}
THREE = ((b"a", b"1", 10), (None, None, 20), (b"", b"3", 500))


def _files(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.parquet"))


def test_old_records_move_and_the_reader_does_not_notice() -> None:
    with kept_log(TIERED) as log:
        put(log, THREE[0], THREE[1], headers=[(("h", b"x"), ("n", None)), ()])
        put(log, THREE[2])
        before = rows(log)
        report = log.clean(500)
        assert (report.moved_records, report.moved_parts) == (2, 1)
        assert rows(log) == before == [
            Row(0, b"a", b"1", 10, (("h", b"x"), ("n", None))), Row(1, None, None, 20), Row(2, b"", b"3", 500)
        ]  # fmt: skip
        assert bounds(log) == (0, 3)


def test_a_part_is_read_in_the_thread_that_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Arrow thread that frees a Python buffer while the interpreter ends aborts the process."""
    readers = set()
    read = part_reader._Piece.read

    def noted(piece: part_reader._Piece, size: int = -1) -> bytes:
        readers.add(threading.get_ident())
        return read(piece, size)

    monkeypatch.setattr(part_reader._Piece, "read", noted)
    with kept_log(TIERED) as log:
        put(log, *THREE)
        log.clean(1_000)
        assert len(log.storage("t")[0].remote_parts) == 1
        assert len(rows(log)) == 3
    assert readers == {threading.get_ident()}


def test_ranges_that_begin_and_end_anywhere_are_found(tmp_path: Path) -> None:
    with kept_log(TIERED) as log:
        put_each(log, *[(b"k", b"%d" % number, number) for number in range(8)])
        log.clean(104)
        put_each(log, *[(b"k", b"%d" % number, number) for number in range(8, 12)])
        log.clean(105)
        assert len(log.storage("t")[0].remote_parts) > 1
        for start in range(13):
            for end in range(start, 13):
                assert [row.offset for row in rows(log, start, end)] == list(range(start, end))
        for time in range(14):
            assert log.offsets_for_time({WHERE: time}) == {WHERE: min(time, 12)}


def test_any_fsspec_url_will_do() -> None:
    url = f"memory://{uuid.uuid4().hex}"
    with kept_log({**TIERED, "remote.storage.url": url}) as log:
        put_each(log, *THREE)
        before = rows(log)
        log.clean(500)
        assert log.storage("t")[0].remote_parts[0].url.startswith(url)
        assert rows(log) == before


def test_other_programs_can_read_the_files(tmp_path: Path) -> None:
    with kept_log({**TIERED, "remote.storage.url": str(tmp_path / "old")}) as log:
        put_each(log, (b"a", b"1", 10), (b"b", b"2", 20))
        log.clean(500)
        (file,) = _files(tmp_path)
        assert pq.read_table(file).select(["offset", "timestamp_ms", "key", "value"]).to_pylist() == [
            {"offset": 0, "timestamp_ms": 10, "key": b"a", "value": b"1"},
            {"offset": 1, "timestamp_ms": 20, "key": b"b", "value": b"2"},
        ]


def test_by_size_so_much_moves_that_the_local_bound_stays() -> None:
    with kept_log({"remote.storage.enable": "true", "segment.ms": "1"}) as log:
        put_each(log, *[(b"a", b"v" * 100, 5) for _ in range(10)])
        one = local_bytes(log) // 10
        log.alter_topic_config("t", {"local.retention.bytes": str(3 * one)})
        log.clean(1_000)
        assert local_bytes(log) == 3 * one
        assert [row.offset for row in rows(log)] == list(range(10))


def test_a_segment_that_is_not_full_waits_for_segment_ms() -> None:
    with kept_log({**TIERED, "segment.ms": "1000"}) as log:
        put_each(log, *[(b"a", b"v", number) for number in range(5)])
        assert not log.clean(999)
        assert log.clean(1_000).moved_parts == 1


def test_full_segments_move_one_file_each() -> None:
    with kept_log({**TIERED, "segment.ms": "1000000"}) as log:
        put_each(log, *[(b"a", b"v" * 100, 5) for _ in range(10)])
        one = local_bytes(log) // 10
        log.alter_topic_config("t", {"segment.bytes": str(4 * one)})
        assert log.clean(1_000).moved_parts == 2
        assert [part.records for part in log.storage("t")[0].remote_parts] == [4, 4]


def test_retention_counts_remote_parts_and_removes_their_files(tmp_path: Path) -> None:
    with kept_log({**TIERED, "retention.ms": "1000", "remote.storage.url": str(tmp_path / "old")}) as log:
        put_each(log, *THREE)
        log.clean(550)
        assert len(_files(tmp_path)) == 1
        report = log.clean(1_100)
        assert (report.expired_records, report.removed_files) == (2, 1)
        assert bounds(log) == (2, 3)
        assert len(_files(tmp_path)) == 1
        with pytest.raises(SourceRangeLostError):
            rows(log, 0, 3)


def test_a_reader_whose_part_is_removed_meanwhile_has_lost_its_range(tmp_path: Path) -> None:
    with kept_log({**TIERED, "retention.ms": "1000", "remote.storage.url": str(tmp_path / "old")}) as log:
        put_each(log, (b"a", b"1", 0), (b"a", b"2", 600))
        log.clean(650)
        put(log, (b"a", b"3", 2_000))
        log.clean(1_000)
        assert len(log.storage("t")[0].remote_parts) == 2
        batches = log.reader().fetch(WHERE, 0, 3)
        assert next(batches).values == [b"1"]
        log.clean(1_900)
        with pytest.raises(SourceRangeLostError):
            list(batches)


def test_a_file_that_somebody_removed_is_a_clear_error(tmp_path: Path) -> None:
    with kept_log({**TIERED, "remote.storage.url": str(tmp_path / "old")}) as log:
        put_each(log, *THREE)
        log.clean(500)
        _files(tmp_path)[0].unlink()
        for ask in (lambda: rows(log), lambda: log.offsets_for_time({WHERE: 15})):
            with pytest.raises(LogError) as error:
                ask()
            assert error.value.condition == "REMOTE_PART_GONE"


def test_remote_storage_that_fails_keeps_the_records_local_and_other_topics_go_on(tmp_path: Path) -> None:
    place = tmp_path / "old"
    with kept_log({**TIERED, "remote.storage.url": str(place)}) as log:
        log.create_topic("u", 1, {"retention.ms": "1"})
        put_each(log, *THREE)
        before = rows(log)
        place.write_text("a file where a folder should be")
        with pytest.raises(LogError) as error:
            log.clean(500)
        assert error.value.condition == "REMOTE_STORAGE_FAILED"
        assert error.value.context["topic"] == "t"
        assert rows(log) == before
        place.unlink()
        assert log.clean(500).moved_records == 2
        assert len(_files(tmp_path)) == 1


def test_a_removed_topic_takes_its_files_along(tmp_path: Path) -> None:
    with kept_log({**TIERED, "remote.storage.url": str(tmp_path / "old")}) as log:
        put_each(log, *THREE)
        log.clean(500)
        log.delete_topic("t")
        assert _files(tmp_path) == []


def test_what_is_remote_can_be_read_after_the_tier_was_switched_off() -> None:
    with kept_log(TIERED) as log:
        put_each(log, *THREE)
        before = rows(log)
        log.clean(500)
        log.alter_topic_config("t", {"remote.storage.enable": "false"})
        assert not log.clean(10_000)
        assert rows(log) == before


def test_a_topic_with_remote_records_cannot_become_compacted() -> None:
    with kept_log(TIERED) as log:
        put_each(log, *THREE)
        log.clean(500)
        with pytest.raises(ConfigError):
            log.alter_topic_config("t", {"remote.storage.enable": "false", "cleanup.policy": "compact"})


@pytest.mark.parametrize(
    ("config", "named"),
    [
        ({"remote.storage.url": ""}, "remote.storage.url"),
        ({"cleanup.policy": "compact"}, "remote.storage.enable"),
        ({"retention.ms": "99"}, "local.retention.ms"),
        ({"remote.storage.url": "nowhere://x"}, "remote.storage.url"),
    ],
)
def test_settings_that_do_not_go_together_are_refused(config: dict[str, str], named: str) -> None:
    with pytest.raises(ConfigError) as error, kept_log({**TIERED, **config}):
        pass
    assert error.value.context["setting"] == named


def test_a_relative_folder_is_that_of_the_process_that_set_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with kept_log({**TIERED, "remote.storage.url": "old"}) as log:
        assert log.topic_config("t")["remote.storage.url"] == str(tmp_path / "old")
