"""Where Spark runs, and what follows from that."""

from __future__ import annotations

import dataclasses
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.runtime.test_planner import Scene

from hayase.core.errors import ConfigError
from hayase.core.secrets import Vault
from hayase.log.protocol import LogConfig
from hayase.runtime.driver.master import cluster_settings, cluster_slots, driver_addresses, own_address
from hayase.runtime.driver.session import default_slots
from hayase.runtime.wire.app_spec import STATE_DIR_VARIABLE, AppSpec
from hayase.runtime.worker.worker import WorkerProcess
from hayase.state.environment.crash_marker import current_boot_id
from hayase.state.environment.folders import StateFolders
from hayase.state.environment.remote_bundles_marker import is_moving
from hayase.storage.open import open_blobs


@pytest.fixture
def master() -> Iterator[str]:
    """Something that listens, at an address of loopback that is not the usual one."""
    with socket.create_server(("127.0.0.7", 0)) as server:
        yield f"127.0.0.7:{server.getsockname()[1]}"


def test_executors_reach_the_driver_where_the_master_does(master: str) -> None:
    found = cluster_settings({"spark.master": f"spark://{master}"}, slots=3)
    assert found["spark.driver.host"] == found["spark.driver.bindAddress"] == "127.0.0.1"
    assert found["spark.cores.max"] == "3"
    assert driver_addresses({"spark.master": f"spark://{master}"}) == ("127.0.0.1", "127.0.0.1")


def test_an_address_that_was_given_for_the_driver_is_left_alone() -> None:
    given = {"spark.master": "spark://nobody:1", "spark.driver.host": "10.1.2.3"}
    assert "spark.driver.bindAddress" not in cluster_settings(given, slots=1)
    assert driver_addresses(given) == ("10.1.2.3", "0.0.0.0")
    assert driver_addresses({**given, "spark.driver.bindAddress": "10.0.0.9"}) == ("10.1.2.3", "10.0.0.9")


def test_on_one_machine_nothing_listens() -> None:
    assert driver_addresses({"spark.driver.host": "127.0.0.1"}) == ("", "")


def test_of_several_masters_one_is_enough(master: str) -> None:
    assert own_address(f"spark://127.0.0.7:1,{master}") == "127.0.0.1"


def test_a_master_that_does_not_answer_is_named() -> None:
    with pytest.raises(ConfigError, match=r"spark://127\.0\.0\.7:1 ") as raised:
        own_address("spark://127.0.0.7:1")
    assert raised.value.condition == "MASTER_UNREACHABLE"


def test_on_a_cluster_somebody_must_say_how_many_cores_there_are() -> None:
    assert cluster_slots({"spark.cores.max": "4"}) == 4
    with pytest.raises(ConfigError, match=r"num\.stream\.threads") as raised:
        default_slots({"spark.master": "yarn"})
    assert raised.value.condition == "MISSING_SETTING"
    assert default_slots({"spark.master": "local[7]"}) == default_slots({})


@pytest.fixture
def app(tmp_path: Path) -> AppSpec:
    """As it is shipped to a cluster."""
    root = tmp_path / "root"
    return dataclasses.replace(
        Scene(tmp_path / "scene").app,
        cluster=True,
        machine=current_boot_id(),
        state_root=str(root),
        folders=StateFolders(root / "app", tmp_path / "memory"),
        followers_dir=str(root / "app" / "followers"),
    )


def host(app: AppSpec, scene: Path) -> WorkerProcess:
    checkpoint = str(scene / "checkpoint")
    return WorkerProcess(
        {
            "checkpoint": checkpoint,
            "fsync": "false",
            "digest": app.publish(open_blobs(checkpoint, fsync=False), Vault()),
        }
    )


def test_a_machine_may_keep_state_elsewhere_than_the_driver(
    app: AppSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = host(app, tmp_path)
    assert made.folders.logged("0-0", in_memory=False) == tmp_path / "root" / "app" / "state" / "0-0"
    monkeypatch.setenv(STATE_DIR_VARIABLE, str(tmp_path / "disk"))
    follower = tmp_path / "disk" / "app" / "followers" / "standby-0"
    follower.mkdir(parents=True)
    moved = host(app, tmp_path)
    assert moved.folders.logged("0-0", in_memory=False) == tmp_path / "disk" / "app" / "state" / "0-0"
    assert list(moved.state_copies("0-0")) == [follower / "0-0"]
    assert is_moving(tmp_path / "disk" / "app" / "state")
    for each in (made, moved):
        each.close()


def test_without_a_cluster_state_is_where_the_settings_say(
    app: AppSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(STATE_DIR_VARIABLE, str(tmp_path / "disk"))
    made = host(dataclasses.replace(app, cluster=False), tmp_path)
    assert made.folders.logged("0-0", in_memory=False) == tmp_path / "root" / "app" / "state" / "0-0"
    assert not is_moving(tmp_path / "root" / "app" / "state")
    made.close()


def test_a_machine_that_cannot_make_the_state_folder_says_so(
    app: AppSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv(STATE_DIR_VARIABLE, str(tmp_path / "file"))
    with pytest.raises(ConfigError, match=STATE_DIR_VARIABLE) as raised:
        host(app, tmp_path)
    assert raised.value.condition == "STATE_DIR_NOT_USABLE"


def test_the_embedded_log_is_refused_on_another_machine_and_kafka_is_not(app: AppSpec, tmp_path: Path) -> None:
    elsewhere = dataclasses.replace(app, machine="another boot")
    with pytest.raises(ConfigError, match=r"bootstrap\.servers") as raised:
        host(elsewhere, tmp_path)
    assert raised.value.condition == "LOG_ON_ANOTHER_MACHINE"
    host(dataclasses.replace(elsewhere, log=LogConfig("kafka", "127.0.0.1:1")), tmp_path).close()
