"""The folders of an application, before anything is put in them."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path
from typing import Any

import pytest
from tests.other_user import NOBODY, needs_root, open_below

import hayase
from hayase import Consumed, HayaseError, Materialized, Serdes, StreamsBuilder, StreamsConfig, Topology
from hayase.app.folders import settle_folders
from hayase.core.errors import ConfigError
from hayase.query.local_folders import clear_memory, state_folders
from hayase.storage.open import open_blobs

TEXT = Serdes.string()


def topology(store_type: Any = "persistent") -> Topology:
    builder = StreamsBuilder()
    builder.table("in", Consumed.with_(TEXT, TEXT), Materialized.as_("t").with_store_type(store_type))
    return builder.build()


def config(place: Path, **more: Any) -> StreamsConfig:
    settings = {name.replace("_", "."): value for name, value in more.items()}
    return StreamsConfig(
        {
            "application.id": "shop",
            "state.dir": place / "hayase",
            "log.dir": place / "log",
            "state.memory.dir": place / "memory",
            **settings,
        }
    )


def settle(made: StreamsConfig, given: Topology | None = None) -> None:
    settle_folders(given or topology(), made, open_blobs(made.checkpoint_dir))


def old(*paths: Path) -> None:
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("of an earlier version")
    for each in {parent for path in paths for parent in path.parents if parent.stat().st_uid == os.geteuid()}:
        if "pytest-of" not in each.name and "/pytest-" in str(each) and not each.name.startswith("pytest-"):
            each.chmod(0o755)


def test_folders_of_an_earlier_version_are_closed_with_all_that_is_in_them(tmp_path: Path) -> None:
    shop = tmp_path / "hayase" / "shop"
    old(
        shop / "checkpoint" / "epochs" / "0",
        shop / "state" / "0-0" / "data.mdb",
        shop / "spark.log",
        tmp_path / "log" / "data.mdb",
    )
    assert open_below(tmp_path / "hayase")
    settle(config(tmp_path))
    assert open_below(tmp_path / "hayase") == open_below(tmp_path / "log") == []


def test_a_state_dir_that_other_programs_use_as_well_stays_as_it_is(tmp_path: Path) -> None:
    old(tmp_path / "var" / "other" / "file", tmp_path / "var" / "shop" / "spark.log")
    settle(config(tmp_path, state_dir=tmp_path / "var"))
    assert stat.S_IMODE((tmp_path / "var").stat().st_mode) == 0o755
    assert open_below(tmp_path / "var" / "other") != []
    assert open_below(tmp_path / "var" / "shop") == []


def test_a_checkpoint_in_a_folder_with_other_files_is_closed_and_they_are_not(tmp_path: Path) -> None:
    old(tmp_path / "project" / "thesis.txt", tmp_path / "project" / "epochs" / "0", tmp_path / "project" / "lease")
    settle(config(tmp_path, checkpoint_dir=tmp_path / "project"))
    opened = {Path(each.rpartition(" ")[0]).name for each in open_below(tmp_path / "project")}
    assert opened == {"project", "thesis.txt"}


@pytest.mark.parametrize(("access", "mode"), [("none", 0o700), ("read", 0o2750), ("write", 0o2770)])
def test_a_group_gets_the_access_that_the_setting_gives(tmp_path: Path, access: str, mode: int) -> None:
    settle(config(tmp_path, files_group_access=access), topology("in_memory"))
    for name in ("hayase", "hayase/shop", "hayase/shop/checkpoint", "log", "memory"):
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == mode, name


def test_without_the_setting_a_group_keeps_the_access_that_it_was_given(tmp_path: Path) -> None:
    settle(config(tmp_path, files_group_access="write"))
    settle(config(tmp_path))
    assert stat.S_IMODE((tmp_path / "hayase" / "shop").stat().st_mode) == 0o2770


@pytest.mark.parametrize("value", ["all", "0777", ""])
def test_no_other_access_can_be_given(tmp_path: Path, value: str) -> None:
    with pytest.raises(ConfigError, match="none, read, write"):
        config(tmp_path, files_group_access=value)


@needs_root
def test_the_memory_of_another_user_is_refused_only_by_a_topology_that_needs_it_and_never_cleared(
    tmp_path: Path,
) -> None:
    made = config(tmp_path)
    theirs = state_folders(made).memory / "file"
    theirs.parent.mkdir(parents=True)
    theirs.write_text("theirs")
    os.chown(tmp_path / "memory", NOBODY, NOBODY)
    settle(made)
    clear_memory(made)
    assert theirs.read_text() == "theirs"
    with pytest.raises(HayaseError, match="belongs to nobody"):
        settle(made, topology("in_memory"))


@needs_root
def test_a_link_in_place_of_the_memory_does_not_lead_clearing_elsewhere(tmp_path: Path) -> None:
    made = config(tmp_path)
    name = state_folders(made).memory.name
    (tmp_path / "precious" / name).mkdir(parents=True)
    (tmp_path / "memory").symlink_to(tmp_path / "precious")
    os.lchown(tmp_path / "memory", NOBODY, NOBODY)
    clear_memory(made)
    assert (tmp_path / "precious" / name).is_dir()


def test_hosts_of_the_metrics_are_names_without_ports(tmp_path: Path) -> None:
    assert config(tmp_path, metrics_allowed_hosts="Metrics.Shop, [::1],10.0.0.7").metrics_allowed_hosts == (
        "metrics.shop", "::1", "10.0.0.7",
    )  # fmt: skip
    with pytest.raises(ConfigError, match=r"metrics\.allowed\.hosts"):
        config(tmp_path, metrics_allowed_hosts="http://metrics.shop/")


ELSEWHERE = {"offsets/", "commits/", "task/"}
"""Folders that are none of a checkpoint: below `spark/`, and in a state."""


def folders_in_the_code() -> set[str]:
    """The folders of blobs that the code names."""
    package = Path(hayase.__file__).parent
    files = [each for name in ("app", "runtime", "task", "state", "query") for each in (package / name).rglob("*.py")]
    named = re.compile(r'^_?[A-Z_]+ = "([a-z-]+/)', re.MULTILINE)
    written = re.compile(r'f?"((?:changelog|snapshots)/)')
    texts = [each.read_text() for each in (*files, package / "log" / "assignments.py")]
    return {name for text in texts for pattern in (named, written) for name in pattern.findall(text)} - ELSEWHERE


def test_all_that_the_code_puts_into_a_checkpoint_is_closed_when_a_copy_of_it_is_restored(tmp_path: Path) -> None:
    folders = folders_in_the_code()
    assert {"assignments/", "rounds/", "changelog/", "snapshots/"} <= folders
    place = tmp_path / "restored"
    old(*(place / folder / "0" for folder in sorted(folders)), place / "plan.json", place / "lineage")
    (place / "thesis.txt").write_text("of its user")  # so that only what is known is closed
    settle(config(tmp_path, checkpoint_dir=place))
    opened = {Path(each.rpartition(" ")[0]).name for each in open_below(place)}
    assert opened <= {"restored", "thesis.txt"}
