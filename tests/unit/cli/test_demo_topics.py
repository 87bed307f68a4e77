"""Where the demo works: never on what is not its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from hayase.cli.demo.folder import demo_folder
from hayase.cli.demo.generator import Shop
from hayase.cli.demo.topics import PARTITIONS, fill_topics, make_topics, read_topic
from hayase.core.errors import ConfigError, LeaseHeldError, LogError
from hayase.log.open import open_log
from hayase.log.protocol import Log, LogConfig


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return open_log(LogConfig("embedded", str(tmp_path / "log"), {"fsync": "false"}))


def test_topics_are_made_filled_and_made_anew(log: Log) -> None:
    written: list[int] = []
    for _ in range(2):
        make_topics(log)
        fill_topics(log.writer(), Shop(1_000), written.append)
        assert read_topic(log, "orders").num_rows == 1_000
        assert read_topic(log, "sales").num_rows == 0
    assert written == [1_000, 1_000]
    assert {name: info.partitions for name, info in log.describe(list(PARTITIONS)).items()} == PARTITIONS


def test_topics_that_no_demo_has_made_are_left_alone(log: Log) -> None:
    log.create_topic("orders", 1)
    with pytest.raises(LogError, match="orders exist already and were not made by the demo"):
        make_topics(log)
    assert log.topics() == ["orders"]


def test_the_folder_is_emptied_for_every_run(tmp_path: Path) -> None:
    with demo_folder(tmp_path / "d") as folder:
        (folder / "log").mkdir()
        (folder / "stderr.log").write_text("x")
    with demo_folder(tmp_path / "d") as folder:
        assert [item.name for item in folder.iterdir()] == [".hayase-demo"]


def test_a_folder_with_files_of_somebody_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("x")
    with pytest.raises(ConfigError, match="holds files that are not the demo's"), demo_folder(tmp_path):
        pass
    assert (tmp_path / "thesis.txt").exists()


def test_two_demos_do_not_share_a_folder(tmp_path: Path) -> None:
    with (
        demo_folder(tmp_path / "d"),
        pytest.raises(LeaseHeldError, match="a demo is running"),
        demo_folder(tmp_path / "d"),
    ):
        pass
