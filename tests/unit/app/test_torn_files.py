"""What a power loss left torn, because it was not synced, is named; it never looks like something else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from hayase.app.checkpoint import checkpoint_id_of, fix_plan, read_checkpoint_id, stored_plan
from hayase.app.reset import reset_application
from hayase.core.config import StreamsConfig
from hayase.core.errors import CheckpointError, HayaseError, LogError
from hayase.core.records import TopicPartition
from hayase.log.open import open_log
from hayase.log.protocol import LogConfig, OutputBatch
from hayase.query.checkpoint import find_checkpoint
from hayase.storage.posix_blobs import PosixBlobs
from hayase.task.epoch_record import EpochRecord, Epochs, record_name

PLAN = '{"bundles":{},"internal":{},"repartitions":{},"topics":{},"units":{}}'
DAMAGE = pytest.mark.parametrize(
    "tear",
    [
        lambda data: b"",
        lambda data: data[: len(data) // 2],
        lambda data: bytes(len(data)),
        lambda data: data[: len(data) // 2] + bytes(len(data) - len(data) // 2),
    ],
    ids=["empty", "cut off", "zeros", "zeros at the end"],
)


@pytest.fixture
def blobs(tmp_path: Path) -> PosixBlobs:
    """A checkpoint of one epoch."""
    made = PosixBlobs(tmp_path / "checkpoint", fsync=False)
    checkpoint_id = checkpoint_id_of(made)
    fix_plan(made, "app", PLAN, new_names=False)
    record = EpochRecord(0, checkpoint_id, "digest", 1, {"in": {0: (0, 10)}}, {"in": "id"})
    made.put_if_absent(record_name(0), record.to_bytes())
    return made


def damage(blobs: PosixBlobs, name: str, tear: Callable[[bytes], bytes]) -> None:
    data = blobs.get(name)
    assert data is not None
    blobs.delete(name)
    blobs.put_if_absent(name, tear(data))


def names(ask: Callable[[], object], condition: str) -> str:
    with pytest.raises(HayaseError) as caught:
        ask()
    assert caught.value.condition == condition
    assert "hayase app reset" in caught.value.message
    return caught.value.message


@DAMAGE
def test_a_torn_epoch_record_is_named(blobs: PosixBlobs, tear: Callable[[bytes], bytes]) -> None:
    damage(blobs, record_name(0), tear)
    assert "epochs/" in names(lambda: Epochs(blobs).record(0), "EPOCH_RECORD_CORRUPT")


@DAMAGE
def test_a_torn_plan_is_named(blobs: PosixBlobs, tear: Callable[[bytes], bytes]) -> None:
    damage(blobs, "plan.json", tear)
    for ask in (
        lambda: stored_plan(blobs),
        lambda: fix_plan(blobs, "app", PLAN, new_names=False),
        lambda: find_checkpoint(blobs, "app"),
    ):
        assert "plan.json" in names(ask, "CHECKPOINT_CORRUPT")


@pytest.mark.parametrize("torn", [b"", bytes(32), b"0123456789abcdef" + bytes(16)])
def test_a_torn_lineage_is_named(blobs: PosixBlobs, torn: bytes) -> None:
    damage(blobs, "lineage", lambda _: torn)
    for ask in (
        lambda: checkpoint_id_of(blobs),
        lambda: read_checkpoint_id(blobs),
        lambda: find_checkpoint(blobs, "app"),
    ):
        assert "lineage" in names(ask, "CHECKPOINT_CORRUPT")


def test_an_application_whose_checkpoint_is_torn_can_be_started_over(tmp_path: Path) -> None:
    config = StreamsConfig({"application.id": "app", "state.dir": tmp_path, "log.dir": tmp_path / "log"})
    blobs = PosixBlobs(Path(config.checkpoint_dir), fsync=False)
    blobs.put_if_absent("lineage", b"")
    blobs.put_if_absent("plan.json", b"")
    log = open_log(LogConfig("embedded", str(tmp_path / "log"), {"fsync": "false"}))
    try:
        reset_application(config, log)
    finally:
        log.close()
    assert read_checkpoint_id(blobs) is None


@pytest.mark.parametrize("pages", [3, 8])
def test_a_log_whose_file_is_cut_off_is_named_and_not_read(tmp_path: Path, pages: int) -> None:
    config = LogConfig("embedded", str(tmp_path), {"fsync": "false"})
    log = open_log(config)
    log.create_topic("t", 1)
    writer = log.writer()
    writer.append([OutputBatch("t", [b"k"] * 1_000, [b"v" * 100] * 1_000, list(range(1_000)))])
    writer.close()
    log.close()
    data = tmp_path / "data.mdb"
    with data.open("r+b") as file:
        file.truncate(data.stat().st_size - pages * 4096)
    with pytest.raises(LogError, match=r"data\.mdb ends before its last page") as caught:
        open_log(config).end_offsets([TopicPartition("t", 0)])
    assert caught.value.condition == "LOG_DAMAGED"


def test_a_checkpoint_that_is_whole_is_read(blobs: PosixBlobs) -> None:
    assert Epochs(blobs).record(0) is not None
    assert find_checkpoint(blobs, "app") is not None
    with pytest.raises(
        CheckpointError, match=r"is not the one that its checkpoint was made with: sub-topology 0 .* is new"
    ):
        fix_plan(blobs, "app", PLAN.replace("{}}", '{"0":{}}}', 1), new_names=False)
