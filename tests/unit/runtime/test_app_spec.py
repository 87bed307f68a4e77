"""What travels to workers."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from tests.unit.runtime.test_planner import Scene

from hayase.core.errors import CheckpointError, ConfigError
from hayase.core.secrets import Vault
from hayase.runtime.wire.app_spec import delete_other_programs, load_app_spec
from hayase.storage.posix_blobs import PosixBlobs


def test_a_start_deletes_what_earlier_ones_shipped_and_nothing_else(tmp_path: Path) -> None:
    blobs = PosixBlobs(tmp_path / "c", fsync=False)
    app = Scene(tmp_path / "scene").app
    vault = Vault()
    digests = [dataclasses.replace(app, slots=slots).publish(blobs, vault) for slots in (1, 2, 3)]
    vault.close()
    blobs.put_if_absent("plan", b"plan")
    delete_other_programs(blobs, digests[1])
    assert load_app_spec(blobs, digests[1]).slots == 2
    assert blobs.list("programs/") == [f"programs/{digests[1]}"] and blobs.exists("plan")
    delete_other_programs(blobs, digests[1])
    assert load_app_spec(blobs, digests[1]).slots == 2


def test_a_worker_whose_program_is_gone_says_so(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as raised:
        load_app_spec(PosixBlobs(tmp_path), "0" * 32)
    assert raised.value.condition == "PROGRAM_NOT_FOUND"


def test_a_program_that_is_damaged_is_not_run(tmp_path: Path) -> None:
    blobs, vault = PosixBlobs(tmp_path / "c", fsync=False), Vault()
    digest = Scene(tmp_path / "scene").app.publish(blobs, vault)
    vault.close()
    data = bytearray(blobs.get(f"programs/{digest}") or b"")
    data[len(data) // 2] ^= 1
    blobs.delete(f"programs/{digest}")
    blobs.put_if_absent(f"programs/{digest}", bytes(data))
    with pytest.raises(CheckpointError) as raised:
        load_app_spec(blobs, digest)
    assert raised.value.condition == "PROGRAM_DAMAGED"
