"""Settings from files and from the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from hayase.cli.options import read_settings
from hayase.core.errors import ConfigError


def test_a_properties_file_is_read_with_its_comments(tmp_path: Path) -> None:
    file = tmp_path / "shop.properties"
    file.write_text("# ours\napplication.id = shop\n! old\ncommit.interval.ms: 500\n\nbootstrap.servers=a:1,b:2\n")
    assert read_settings(None, file) == {
        "application.id": "shop",
        "commit.interval.ms": "500",
        "bootstrap.servers": "a:1,b:2",
    }


def test_a_toml_file_may_use_dots_or_tables(tmp_path: Path) -> None:
    file = tmp_path / "shop.toml"
    file.write_text('application.id = "shop"\n"checkpoint.fsync" = false\n[commit]\ninterval.ms = 500\n')
    assert read_settings(None, file) == {"application.id": "shop", "checkpoint.fsync": False, "commit.interval.ms": 500}


def test_the_command_line_wins_over_the_file(tmp_path: Path) -> None:
    file = tmp_path / "shop.properties"
    file.write_text("application.id=shop\n")
    assert read_settings(["application.id=other", "state.dir = x=y"], file) == {
        "application.id": "other",
        "state.dir": "x=y",
    }


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("a.properties", "one=1\nnothing\n", "line 2: this is not key=value"),
        ("a.toml", "= 1\n", "a.toml"),
    ],
)
def test_a_damaged_file_says_where(tmp_path: Path, name: str, text: str, words: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(ConfigError, match=words):
        read_settings(None, tmp_path / name)


def test_a_file_that_is_not_there_says_so(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        read_settings(None, tmp_path / "none.toml")


def test_where_topics_are_an_option_says_rather_than_a_file_and_a_pair_rather_than_the_option(tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    file.write_text('"bootstrap.servers" = "kafka:9092"\n"state.dir" = "data"\n')
    topics = {"log.dir": tmp_path / "log"}
    assert read_settings(None, file, topics) == {"state.dir": "data", **topics}
    assert read_settings(["log.dir=other"], file, topics) == {"state.dir": "data", "log.dir": "other"}
