"""What is wrong with a program or its topics is said before Spark is started, and leaves nothing behind."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hayase import Consumed, HayaseError, Produced, Serdes, StreamsApp, StreamsBuilder, StreamsConfig
from hayase.app.checkpoint import fix_plan, stored_plan
from hayase.core.errors import CheckpointError
from hayase.log.config import log_config
from hayase.log.open import open_log
from hayase.runtime.driver.lease import lease_for
from hayase.storage.open import open_blobs

TEXT = Serdes.string()
READ = Consumed.with_(TEXT, TEXT)


@pytest.fixture(autouse=True)
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    def started(*_: Any) -> None:
        raise AssertionError("Spark was started")

    monkeypatch.setattr("hayase.runtime.driver.session.launch_jvm", started)


def settings(folder: Path) -> dict[str, Any]:
    return {"application.id": "shop", "state.dir": folder / "state", "log.dir": folder / "log", "log.level": "ERROR"}


def refused(builder: StreamsBuilder, folder: Path, **topics: int) -> HayaseError:
    config = StreamsConfig(settings(folder))
    log = open_log(log_config(config))
    for name, partitions in topics.items():
        log.create_topic(name, partitions)
    log.close()
    with pytest.raises(HayaseError) as raised:
        StreamsApp(builder.build(), config).run_to_end()
    return raised.value


def joined() -> StreamsBuilder:
    builder = StreamsBuilder()
    table = builder.table("users", READ)
    builder.stream("orders", READ).join(table, lambda order, user: order).to("out", Produced.with_(TEXT, TEXT))
    return builder


@pytest.mark.long
def test_a_missing_source_and_a_missing_sink_are_named_with_the_command_that_makes_them(tmp_path: Path) -> None:
    error = refused(joined(), tmp_path, orders=1)
    assert error.condition == "UNKNOWN_TOPIC" and "`hayase topics create users`" in error.message
    error = refused(joined(), tmp_path, users=1)
    assert error.condition == "UNKNOWN_TOPIC" and "`hayase topics create out`" in error.message


@pytest.mark.long
def test_partition_counts_that_differ_are_named(tmp_path: Path) -> None:
    assert refused(joined(), tmp_path, orders=3, users=2, out=1).condition == "PARTITIONS_DIFFER"


@pytest.mark.long
def test_another_copy_that_runs_is_named(tmp_path: Path) -> None:
    config = StreamsConfig(settings(tmp_path))
    with lease_for(open_blobs(config.checkpoint_dir, fsync=False), "shop"):
        assert refused(joined(), tmp_path, orders=1, users=1, out=1).condition == "LEASE_HELD"


def locked(function: Callable[[str], str]) -> StreamsBuilder:
    builder = StreamsBuilder()
    builder.stream("in", READ).map_values(function).to("out", Produced.with_(TEXT, TEXT))
    return builder


def test_a_program_that_cannot_travel_does_not_fix_the_plan_of_the_one_that_will(tmp_path: Path) -> None:
    lock = threading.Lock()
    assert refused(locked(lambda _: str(lock)), tmp_path, **{"in": 1, "out": 1}).condition == "NOT_PICKLABLE"
    assert stored_plan(open_blobs(StreamsConfig(settings(tmp_path)).checkpoint_dir, fsync=False)) is None


@pytest.mark.parametrize("setting", ["state.dir", "checkpoint.dir"])
def test_a_folder_that_cannot_be_made_names_its_setting(setting: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    app = StreamsApp(joined().build(), {**settings(tmp_path), setting: tmp_path / "file/folder"})
    with pytest.raises(HayaseError) as raised:
        app.run_to_end()
    assert raised.value.condition == "FOLDER_NOT_USABLE"
    assert f"Set {setting} to a folder that this user can write" in raised.value.message


def test_a_folder_of_the_log_that_cannot_be_made_names_its_setting(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(HayaseError, match=r"set log\.dir \(--log-dir, HAYASE_LOG_DIR\)"):
        open_log(log_config(StreamsConfig({**settings(tmp_path), "log.dir": tmp_path / "file/log"})))


def test_another_topology_is_told_by_its_nodes_with_the_commands_that_help(tmp_path: Path) -> None:
    old = (
        '{"bundles":{"0-0":{"level":0,"tasks":["0_0"],"unit":"0"}},"repartitions":{},"topics":{"in":1},'
        '"units":{"0":{"level":0,"nodes":["SOURCE","FILTER","SINK"],"partitions":1}}}'
    )
    new = old.replace('"FILTER"', '"MAP"').replace('{"in":1}', '{"in":1,"more":2}')
    blobs = open_blobs(str(tmp_path / "checkpoint"), fsync=False)
    fix_plan(blobs, "shop", old, new_names=False)
    with pytest.raises(CheckpointError) as raised:
        fix_plan(blobs, "shop", new, new_names=False)
    message = raised.value.message
    assert "topology of 'shop' is not the one" in message
    assert "sub-topology 0 has no FILTER any more, has a new MAP; source topic more is new." in message
    assert "`hayase app reset shop`" in message and "`-c application.id=shop-2`" in message
    assert raised.value.context["application_id"] == "shop"
    with pytest.raises(CheckpointError, match="tasks are bundled differently: 0-0"):
        fix_plan(blobs, "shop", old.replace('"tasks":["0_0"]', '"tasks":["0_1"]'), new_names=False)


def test_commands_in_errors_of_a_start_name_the_application(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: object) -> None:
        raise CheckpointError("CHECKPOINT_CORRUPT", "it is damaged. Start over with `hayase app reset`")

    app = StreamsApp(joined().build(), settings(tmp_path))
    monkeypatch.setattr(StreamsApp, "_take_folders", fail)
    with pytest.raises(CheckpointError, match="`hayase app reset shop`"):
        app.start()
    assert "`hayase app reset shop`" in str(app.error)
