"""Epoch records: what is read back is what was written."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hayase.core.errors import CheckpointError
from hayase.storage.posix_blobs import PosixBlobs
from hayase.task.epoch_record import EpochRecord, Epochs, Program, done_name, record_name

RECORD = EpochRecord(
    3,
    "L",
    "P",
    1_700_000_000_123,
    {"in": {0: (10, 25), 1: (7, 7)}},
    {"in": "id"},
    "f" * 32,
    Program(2, ("0-0", "1-0"), {"1": "d"}),
)
OLD = (
    b'{"epoch":3,"lineage":"L","plan":"P","wall_clock_ms":5,"ranges":{"in":{"0":[0,2]}},"topic_ids":{"in":"1"},'
    b'"previous":""}'
)


def test_a_record_survives_its_bytes() -> None:
    assert EpochRecord.from_bytes(RECORD.to_bytes(), 3) == RECORD


@given(st.integers(0, len(RECORD.to_bytes()) - 1), st.integers(1, 255))
def test_a_record_with_any_byte_altered_is_refused(position: int, change: int) -> None:
    data = bytearray(RECORD.to_bytes())
    data[position] ^= change
    with pytest.raises(CheckpointError) as refused:
        EpochRecord.from_bytes(bytes(data), 3)
    assert refused.value.condition == "EPOCH_RECORD_CORRUPT"
    assert record_name(3) in refused.value.message


@given(st.integers(0, len(RECORD.to_bytes()) - 1))
def test_a_record_that_is_cut_off_anywhere_is_refused(length: int) -> None:
    with pytest.raises(CheckpointError):
        EpochRecord.from_bytes(RECORD.to_bytes()[:length])


def test_a_record_of_an_earlier_version_is_read_and_keeps_its_digest() -> None:
    record = EpochRecord.from_bytes(OLD)
    assert record.digest == hashlib.blake2b(OLD, digest_size=16).hexdigest()
    assert (record.term, record.journals("0-0")) == (0, None)
    assert EpochRecord.from_bytes(record.to_bytes()) == record


def test_the_record_of_another_epoch_is_refused() -> None:
    with pytest.raises(CheckpointError, match="it is that of epoch 3"):
        EpochRecord.from_bytes(RECORD.to_bytes(), 4)


def test_a_record_of_an_earlier_version_that_differs_from_its_done_mark_is_refused(tmp_path: Path) -> None:
    blobs = PosixBlobs(tmp_path, fsync=False)
    blobs.put_if_absent(record_name(3), OLD.replace(b"[0,2]", b"[0,3]"))
    blobs.put_if_absent(done_name(3), hashlib.blake2b(OLD, digest_size=16).hexdigest().encode())
    with pytest.raises(CheckpointError) as refused:
        Epochs(blobs).checked_record(3)
    assert refused.value.condition == "EPOCH_RECORD_CORRUPT"


@pytest.mark.parametrize(("mark", "named"), [(b"\0" * 32, "done mark"), (b"", "done mark"), (b"0" * 32, "record")])
def test_a_damaged_done_mark_is_named_and_not_the_record_beside_it(tmp_path: Path, mark: bytes, named: str) -> None:
    blobs = PosixBlobs(tmp_path)
    blobs.put_if_absent(record_name(RECORD.epoch), RECORD.to_bytes())
    blobs.put_if_absent(done_name(RECORD.epoch), mark)
    with pytest.raises(CheckpointError) as refused:
        Epochs(blobs).checked_record(RECORD.epoch)
    assert refused.value.condition == "EPOCH_RECORD_CORRUPT"
    assert refused.value.message.startswith(f"the {named} of epoch {RECORD.epoch}, ")
    assert done_name(RECORD.epoch) in refused.value.message
