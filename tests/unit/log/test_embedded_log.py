"""What is the embedded log's own: its folder, options, limits, and life in several processes and threads."""

from __future__ import annotations

import multiprocessing
import os
import resource
import shutil
import signal
import threading
from collections.abc import Callable
from pathlib import Path

import lmdb
import pytest

from hayase.core.errors import ConfigError, LogError, ProductionError, SourceRangeLostError, UnknownTopicError
from hayase.core.records import TopicPartition
from hayase.log.embedded.group_commit import GroupCommit
from hayase.log.embedded.log import EmbeddedLog
from hayase.log.protocol import LogConfig, Marker, OutputBatch

SPAWN = multiprocessing.get_context("spawn")
T0 = TopicPartition("t", 0)


def _open(folder: Path, **options: str) -> EmbeddedLog:
    return EmbeddedLog(
        LogConfig("embedded", str(folder), {name.replace("_", "."): value for name, value in options.items()})
    )


def _append(log: EmbeddedLog, *values: bytes) -> None:
    log.writer().append([OutputBatch("t", [None] * len(values), list(values), [1] * len(values))])


def _values(log: EmbeddedLog) -> list[bytes | None]:
    end = log.end_offsets([T0])[T0]
    return [value for part in log.reader().fetch(T0, 0, end) for value in part.values]


def test_what_was_written_is_there_when_the_log_is_opened_again(tmp_path: Path) -> None:
    first = _open(tmp_path)
    topic = first.create_topic("t", 1, {"retention.ms": "5"})
    _append(first, b"a")
    first.close()
    again = _open(tmp_path)
    assert again.describe(["t"]) == {"t": topic}
    assert _values(again) == [b"a"]
    again.close()


def test_a_log_that_is_closed_says_so(tmp_path: Path) -> None:
    log = _open(tmp_path)
    log.create_topic("t", 1)
    reader, writer = log.reader(), log.writer()
    log.close()
    log.close()
    for use in (log.topics, lambda: list(reader.fetch(T0, 0, 0)), lambda: writer.append([])):
        with pytest.raises(LogError) as error:
            use()
        assert error.value.condition == "LOG_CLOSED"


def test_closing_one_log_leaves_another_on_the_same_folder_open(tmp_path: Path) -> None:
    one, other = _open(tmp_path), _open(tmp_path)
    one.create_topic("t", 1)
    one.close()
    _append(other, b"a")
    assert _values(other) == [b"a"]
    other.close()


def test_a_folder_can_be_removed_and_used_anew_after_closing(tmp_path: Path) -> None:
    log = _open(tmp_path / "log")
    log.create_topic("t", 1)
    log.close()
    shutil.rmtree(tmp_path / "log")
    log = _open(tmp_path / "log")
    assert log.topics() == []
    log.close()


def test_after_a_fork_the_log_of_the_parent_is_refused_and_a_new_one_works(tmp_path: Path) -> None:
    log = _open(tmp_path)
    log.create_topic("t", 1)
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            with pytest.raises(LogError, match="fork"):
                log.topics()
            own = _open(tmp_path)
            _append(own, b"child")
            own.close()
            status = 0
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    _append(log, b"parent")
    assert _values(log) == [b"child", b"parent"]
    log.close()


def test_an_unknown_option_is_refused_with_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"fsync, map\.size"):
        _open(tmp_path, acks="all")
    with pytest.raises(ConfigError, match="true, false"):
        _open(tmp_path, fsync="maybe")


def test_an_unknown_topic_setting_is_refused_with_the_known_ones(tmp_path: Path) -> None:
    log = _open(tmp_path)
    with pytest.raises(ConfigError, match=r"retention\.ms"):
        log.create_topic("t", 1, {"retention": "1"})
    log.close()


def test_two_logs_of_a_process_must_agree_on_fsync(tmp_path: Path) -> None:
    log = _open(tmp_path, fsync="true")
    with pytest.raises(LogError) as error:
        _open(tmp_path, fsync="false")
    assert error.value.condition == "LOG_NOT_OPENED"
    log.close()


def test_a_folder_that_cannot_be_used_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(LogError) as error:
        _open(tmp_path / "file")
    assert error.value.condition == "LOG_NOT_OPENED"


def test_a_folder_of_another_format_is_refused(tmp_path: Path) -> None:
    with lmdb.open(str(tmp_path), max_dbs=16) as env:
        meta = env.open_db(b"meta")
        with env.begin(write=True) as txn:
            txn.put(b"format", b"99", db=meta)
    with pytest.raises(LogError) as error:
        _open(tmp_path)
    assert error.value.condition == "LOG_FORMAT"


def test_the_map_grows_without_notice(tmp_path: Path) -> None:
    log = _open(tmp_path, map_size=str(1 << 20))
    log.create_topic("t", 1)
    for number in range(8):
        _append(log, os.urandom(1 << 20) + b"%d" % number)
    assert [(value or b"")[1 << 20 :] for value in _values(log)] == [b"%d" % number for number in range(8)]
    log.close()


@pytest.mark.parametrize("compression", ["producer", "uncompressed", "lz4", "zstd", "gzip", "snappy"])
def test_every_compression_gives_back_what_was_written(tmp_path: Path, compression: str) -> None:
    log = _open(tmp_path)
    log.create_topic("t", 1, {"compression.type": compression})
    given = [b"x" * 1000, os.urandom(1000), b""]
    _append(log, *given)
    assert _values(log) == given
    log.close()


@pytest.mark.parametrize(
    "broken",
    [
        OutputBatch("t", [None], [b"a", b"b"], [1, 1]),
        OutputBatch("t", [None], [b"a"], [1], headers=[]),
        OutputBatch("t", [None], [b"a"], [2**63]),
        OutputBatch("t", [None], [b"a"], [-1]),
    ],
    ids=["keys missing", "headers missing", "time too large", "time negative"],
)
def test_a_batch_that_cannot_be_written_is_refused_whole(tmp_path: Path, broken: OutputBatch) -> None:
    log = _open(tmp_path)
    log.create_topic("t", 1)
    with pytest.raises(ProductionError):
        log.writer().append([OutputBatch("t", [None], [b"good"], [1]), broken])
    assert log.end_offsets([T0]) == {T0: 0}
    log.close()


def test_a_topic_that_is_made_anew_while_it_is_read_ends_the_reading(tmp_path: Path) -> None:
    log = _open(tmp_path)
    log.create_topic("t", 1)
    for _ in range(2):
        _append(log, *[b"v"] * 60_000)
    parts = log.reader().fetch(T0, 0, 120_000)
    assert len(next(parts)) == 60_000
    log.delete_topic("t")
    log.create_topic("t", 1)
    _append(log, *[b"v"] * 3)
    with pytest.raises((UnknownTopicError, SourceRangeLostError)):
        next(parts)
    log.close()


@pytest.mark.parametrize(("start", "end", "offset"), [(-1, 1, -1), (0, 3, 3), (2, 3, 3)])
def test_a_range_beyond_what_is_there_is_lost_at_the_offset_that_is_missing(
    tmp_path: Path, start: int, end: int, offset: int
) -> None:
    log = _open(tmp_path)
    log.create_topic("t", 1)
    _append(log, b"a", b"b")
    with pytest.raises(SourceRangeLostError) as error:
        list(log.reader().fetch(T0, start, end))
    assert error.value.context == {"topic": "t", "partition": 0, "offset": offset}
    log.close()


def test_a_removed_topic_takes_its_group_offsets_along(tmp_path: Path) -> None:
    log = _open(tmp_path)
    for name in ("t", "t2"):
        log.create_topic(name, 1)
    log.commit_group_offsets("g", {T0: 0, TopicPartition("t2", 0): 0})
    log.delete_topic("t")
    assert log.group_offsets("g") == {TopicPartition("t2", 0): 0}
    log.close()


def test_the_space_of_a_removed_topic_is_used_again(tmp_path: Path) -> None:
    log = _open(tmp_path, fsync="false")
    sizes = []
    for _ in range(6):
        log.create_topic("t", 1)
        _append(log, os.urandom(4 << 20))
        log.delete_topic("t")
        sizes.append((tmp_path / "data.mdb").stat().st_size)
    assert sizes[-1] <= sizes[0] * 3
    log.close()


def _fill(folder: Path) -> None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    log = _open(folder)
    log.create_topic("t", 1)
    _append(log, b"before")
    resource.setrlimit(resource.RLIMIT_FSIZE, (4 << 20, resource.RLIM_INFINITY))
    with pytest.raises(LogError, match="make space") as error:
        _append(log, os.urandom(20 << 20))
    assert error.value.condition == "DISK_FULL"
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    _append(log, b"after")


@pytest.mark.long
def test_a_full_disk_is_a_clear_error_and_loses_nothing(tmp_path: Path) -> None:
    child = SPAWN.Process(target=_fill, args=(tmp_path,))
    child.start()
    child.join()
    assert child.exitcode == 0
    log = _open(tmp_path)
    assert _values(log) == [b"before", b"after"]
    log.close()


def test_writes_that_wait_for_a_commit_share_the_next_one() -> None:
    commits: list[int] = []
    first_runs, others_wait = threading.Event(), threading.Event()
    group = GroupCommit()
    written: list[int] = []

    def transaction(run: Callable[[object], None]) -> None:
        before = len(written)
        run(None)
        commits.append(len(written) - before)

    def first(_: object) -> None:
        first_runs.set()
        assert others_wait.wait(10)
        written.append(0)

    def refused(_: object) -> None:
        raise LogError("NO", "refused")

    errors: list[LogError] = []

    def write_refused() -> None:
        try:
            group.write(refused, transaction)
        except LogError as error:
            errors.append(error)

    threads = [threading.Thread(target=group.write, args=(first, transaction))]
    threads[0].start()
    assert first_runs.wait(10)
    threads += [
        threading.Thread(target=group.write, args=(lambda _, number=number: written.append(number), transaction))
        for number in range(1, 4)
    ]
    threads.append(threading.Thread(target=write_refused))
    for thread in threads[1:]:
        thread.start()
    while len(group._waiting) < 4:
        pass
    others_wait.set()
    for thread in threads:
        thread.join(10)
    assert commits == [1, 3]
    assert sorted(written) == [0, 1, 2, 3]
    assert [error.condition for error in errors] == ["NO"]


@pytest.mark.parametrize("partitions", [1, 3])
def test_a_sink_that_was_deleted_and_made_again_takes_the_next_epochs(tmp_path: Path, partitions: int) -> None:
    log = EmbeddedLog(LogConfig("embedded", str(tmp_path), {"fsync": "false"}))
    log.create_topic("out", 2)
    log.writer().publish_epoch("app", "0-0", Marker("L", 3, "d"), [OutputBatch("out", [b"k"], [b"before"], [1])])
    log.delete_topic("out")
    log.create_topic("out", partitions)
    writer = log.writer()
    assert not writer.publish_epoch("app", "0-0", Marker("L", 3, "d"), [OutputBatch("out", [b"k"], [b"again"], [1])])
    assert writer.publish_epoch("app", "0-0", Marker("L", 4, "d"), [OutputBatch("out", [b"k"], [b"next"], [2])])
    everywhere = [TopicPartition("out", number) for number in range(partitions)]
    ends = log.end_offsets(everywhere)
    reader = log.reader()
    values = [batch.values for each in everywhere for batch in reader.fetch(each, 0, ends[each])]
    assert values == [[b"next"]]
    log.close()
