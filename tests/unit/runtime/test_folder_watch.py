"""One look at the folders of all topologies of a shared runtime."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from hayase.runtime.wire.driver_control import DriverControl
from hayase.runtime.wire.folder_watch import FolderWatch
from hayase.runtime.wire.planner_control import PlannerControl

WAIT_S = 10.0
NO_WAIT_S = 0.3


@pytest.fixture
def watch() -> Iterator[FolderWatch]:
    opened = FolderWatch(0.01)
    yield opened
    opened.close()


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    return tmp_path / "a", tmp_path / "b"


def watched(watch: FolderWatch, folder: Path) -> threading.Event:
    changed = threading.Event()
    watch.add(folder, changed.set)
    assert changed.wait(WAIT_S)  # what was there before is news to it
    threading.Event().wait(NO_WAIT_S)  # it looks again at what has just changed
    changed.clear()
    return changed


def test_only_the_folder_that_has_changed_is_reported(watch: FolderWatch, folders: tuple[Path, Path]) -> None:
    mine, other = watched(watch, folders[0]), watched(watch, folders[1])
    mine.clear()
    DriverControl(folders[0]).request_pause(True)
    assert mine.wait(WAIT_S)
    assert not other.wait(NO_WAIT_S)


def test_a_report_of_an_epoch_is_a_change(watch: FolderWatch, folders: tuple[Path, Path]) -> None:
    with PlannerControl(folders[0]).reporting() as report:
        mine = watched(watch, folders[0])
        report(b"epoch 1")
        assert mine.wait(WAIT_S)


def test_a_folder_that_changes_at_each_look_is_reported_seldom_and_its_last_change_is_kept(
    tmp_path: Path,
) -> None:
    watch = FolderWatch(60.0)
    calls: list[int] = []
    watch.add(tmp_path, lambda: calls.append(tmp_path.stat().st_mtime_ns))
    for number in range(1, 41):
        os.utime(tmp_path, ns=(number, number))
        watch.look()
    assert calls == [*range(1, 11), 15, 20, 25, 30, 35, 40]
    os.utime(tmp_path, ns=(41, 41))
    for _ in range(10):
        watch.look()
    assert calls[16:] == [41]
    watch.close()


def test_a_change_within_the_same_tick_of_the_clock_is_not_missed(
    watch: FolderWatch, folders: tuple[Path, Path]
) -> None:
    control = DriverControl(folders[0])
    seen: list[bool] = []
    watch.add(folders[0], lambda: seen.append(control.pause_requested()))
    for _ in range(20):
        for pause in (True, False):
            control.request_pause(pause)
            give_up_at_s = time.monotonic() + WAIT_S
            while not seen or seen[-1] is not pause:
                assert time.monotonic() < give_up_at_s, "the change was missed"
                threading.Event().wait(0.001)


def test_a_folder_that_is_gone_or_removed_from_the_watch_is_no_error(
    watch: FolderWatch, folders: tuple[Path, Path]
) -> None:
    gone, mine = watched(watch, folders[0]), watched(watch, folders[1])
    folders[0].rmdir()
    watch.remove(folders[0])
    DriverControl(folders[1]).request_pause(True)
    assert mine.wait(WAIT_S)
    assert not gone.is_set()


def test_a_callback_that_fails_is_called_again_and_holds_up_no_other(
    watch: FolderWatch, folders: tuple[Path, Path]
) -> None:
    calls: list[None] = []

    def fails_once() -> None:
        calls.append(None)
        if len(calls) == 1:
            raise OSError("the disk does not answer")

    threading.Event().wait(NO_WAIT_S)  # so that each folder is looked at once
    watch.add(folders[0], fails_once)
    watched(watch, folders[1])
    assert len(calls) == 2


def test_a_folder_that_is_watched_anew_while_it_is_looked_at_has_its_new_callback(folders: tuple[Path, Path]) -> None:
    watch = FolderWatch(60.0)
    mine = threading.Event()

    def watch_anew() -> None:
        watch.remove(folders[1])
        watch.add(folders[1], mine.set)

    watch.add(folders[0], watch_anew)
    watch.add(folders[1], lambda: None)
    watch.look()
    watch.look()
    assert mine.is_set()
    watch.close()


def test_the_planner_is_told_of_a_request_that_comes_and_goes_but_not_of_what_it_publishes_itself(
    folders: tuple[Path, Path],
) -> None:
    driver, planner = DriverControl(folders[0]), PlannerControl(folders[0])
    planner.publish_status(b"epoch 1")
    assert not planner.requests_changed()
    driver.request_pause(True)
    assert planner.requests_changed() and not planner.requests_changed()
    driver.request_pause(False)
    assert planner.requests_changed() and not planner.requests_changed()


def test_what_the_planner_says_again_is_not_written_again(folders: tuple[Path, Path]) -> None:
    planner = PlannerControl(folders[0])
    DriverControl(folders[0]).request_pause(True)
    assert planner.suspend_requested()
    planner.publish_status(b"epoch 1")
    planner.publish_suspended()
    before = {path.name: path.stat().st_ino for path in folders[0].iterdir()}
    planner.publish_status(b"epoch 1")
    planner.publish_suspended()
    assert {path.name: path.stat().st_ino for path in folders[0].iterdir()} == before
    assert DriverControl(folders[0]).suspended()
