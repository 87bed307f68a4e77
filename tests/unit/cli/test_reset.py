"""`hayase app reset`: what is forgotten, and what is left alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hayase.app.reset import reset_application
from hayase.cli.main import run_cli
from hayase.core.config import StreamsConfig
from hayase.core.errors import LeaseHeldError
from hayase.core.records import TopicPartition
from hayase.log.config import log_config
from hayase.log.open import open_log
from hayase.log.protocol import Log, Marker, OutputBatch
from hayase.runtime.driver.lease import FileLease

PLACE = TopicPartition("out", 0)


@pytest.fixture
def config(tmp_path: Path) -> StreamsConfig:
    return StreamsConfig(
        {"application.id": "shop", "log.dir": tmp_path / "log", "state.dir": tmp_path / "s", "checkpoint.fsync": False}
    )


@pytest.fixture
def log(config: StreamsConfig) -> Log:
    """A log and a checkpoint as an application leaves them, and another application's beside."""
    for application in ("shop", "other"):
        for part in ("checkpoint/epochs", "checkpoint/changelog/0-0", "checkpoint/snapshots", "state/0-0"):
            (config.state_dir / application / part).mkdir(parents=True)
        (config.state_dir / application / "checkpoint" / "lineage").write_text("abc")
        (config.state_dir / application / "checkpoint" / "epochs" / "0").write_text("{}")
    log = open_log(log_config(config))
    log.create_topic("out", 1)
    for application in ("shop", "other"):
        log.writer().publish_epoch(application, "0-0", Marker("abc", 0, "d"), [OutputBatch("out", [b"k"], [b"v"], [1])])
        log.commit_group_offsets(application, {PLACE: 1})
    return log


def test_checkpoint_state_markers_and_offsets_are_forgotten(config: StreamsConfig, log: Log) -> None:
    reset_application(config, log)
    assert not (config.state_dir / "shop" / "checkpoint").exists()
    assert not (config.state_dir / "shop" / "state").exists()
    assert log.markers("shop") == {}
    assert log.group_offsets("shop") == {}


def test_topics_and_other_applications_are_left_alone(config: StreamsConfig, log: Log) -> None:
    reset_application(config, log)
    assert log.end_offsets([PLACE]) == {PLACE: 2}
    assert set(log.markers("other")) == {"0-0"}
    assert log.group_offsets("other") == {PLACE: 1}
    assert (config.state_dir / "other" / "checkpoint" / "lineage").exists()


def test_it_may_be_repeated(config: StreamsConfig, log: Log) -> None:
    reset_application(config, log)
    reset_application(config, log)
    assert log.markers("shop") == {}


@pytest.mark.long
def test_a_running_application_is_not_reset(config: StreamsConfig, log: Log) -> None:
    with FileLease(Path(config.checkpoint_dir), "shop"), pytest.raises(LeaseHeldError, match="is running already"):
        reset_application(config, log)
    assert (Path(config.checkpoint_dir) / "lineage").exists()
    assert set(log.markers("shop")) == {"0-0"}


def test_files_of_others_in_the_checkpoint_folder_are_kept(config: StreamsConfig, log: Log) -> None:
    (Path(config.checkpoint_dir) / "notes.txt").write_text("mine")
    reset_application(config, log)
    assert [item.name for item in Path(config.checkpoint_dir).iterdir()] == ["notes.txt"]


def test_the_command_asks_and_does_nothing_without_a_yes(
    config: StreamsConfig, log: Log, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    log.close()
    monkeypatch.setattr("sys.stdin", open("/dev/null"))  # noqa: PTH123, SIM115
    arguments = ["app", "reset", "shop", "-c", f"state.dir={config.state_dir}", "--log-dir", str(config.log_dir)]
    assert run_cli(arguments) == 1
    assert (Path(config.checkpoint_dir) / "lineage").exists()
    assert run_cli([*arguments, "--yes"]) == 0
    assert not Path(config.checkpoint_dir).exists()
    assert "starts over when it is run next" in capsys.readouterr().out


def test_internal_topics_are_deleted_and_those_of_others_are_not(config: StreamsConfig, log: Log) -> None:
    for topic in ("shop-x-repartition", "shop-2-x-repartition"):
        log.create_topic(topic, 1)
    plan = {"units": {}, "bundles": {}, "topics": {}, "repartitions": {}, "internal": {"shop-x-repartition": 1}}
    Path(config.checkpoint_dir, "plan.json").write_text(json.dumps(plan))
    reset_application(config, log)
    assert log.topics() == ["out", "shop-2-x-repartition"]
    reset_application(config, log)


def test_an_application_of_which_nothing_is_known_is_an_error_and_not_a_success(
    config: StreamsConfig, log: Log, capsys: pytest.CaptureFixture[str]
) -> None:
    log.close()
    where = ["-c", f"state.dir={config.state_dir}", "--log-dir", str(config.log_dir), "--yes"]
    assert run_cli(["app", "reset", "shpo", *where]) == 1
    shown = capsys.readouterr()
    assert "nothing is known of an application 'shpo'" in shown.err and "starts over" not in shown.out
    elsewhere = ["-c", f"state.dir={config.state_dir / 'elsewhere'}", *where[2:]]
    assert run_cli(["app", "reset", "shop", *elsewhere]) == 0
    assert "only what the log remembers is removed" in capsys.readouterr().out
