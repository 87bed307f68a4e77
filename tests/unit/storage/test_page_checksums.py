"""Checksums of the pages of an LMDB file follow its commits, whatever they do to its trees."""

from __future__ import annotations

import itertools
import threading
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.budget import examples

from hayase.storage.lmdb_env import close_environment, open_environment, read_transaction, run_write
from hayase.storage.lmdb_pages import PagesDamaged
from hayase.storage.page_checksums import PAGES_FILE, PageChecksums

folders = itertools.count()
Writes = dict[int, int | None]

commits = st.lists(
    st.one_of(
        st.dictionaries(
            st.integers(0, 3000), st.sampled_from([None, 0, 20, 500, 3000, 9000]), min_size=1, max_size=300
        ),
        st.just("fill"),
        st.just("empty"),
    ),
    min_size=1,
    max_size=12,
)


@settings(max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(commits)
def test_checksums_after_any_commits_are_those_of_the_file(tmp_path: Path, made: list[Writes | str]) -> None:
    folder = tmp_path / str(next(folders))
    env = open_environment(folder, max_dbs=0, sync=False)
    sums = PageChecksums(folder)

    for number, writes in enumerate(made):

        def work(txn: Any, writes: Writes | str = writes, number: int = number) -> None:
            write(txn, writes, number)

        sums.commit(lambda work=work: run_write(env, work))  # type: ignore[misc]
        PageChecksums(folder).verify()
    kept = (folder / PAGES_FILE).read_bytes()
    (folder / PAGES_FILE).unlink()
    PageChecksums(folder).verify()
    fresh = PageChecksums(folder)
    fresh.check()
    assert len(kept) >= len(fresh._sums) * 4
    close_environment(folder)


def write(txn: Any, writes: Writes | str, number: int) -> None:
    if writes == "empty":
        with txn.cursor() as cursor:
            found = cursor.first()
            while found:
                cursor.delete()
                found = cursor.first()
        return
    chosen = dict.fromkeys(range(3000), 60) if isinstance(writes, str) else writes
    for key, length in chosen.items():
        if length is None:
            txn.delete(b"%06d" % key)
        else:
            txn.put(b"%06d" % key, bytes([number]) * length)


def test_checksums_of_other_commits_are_damage_and_none_are_not(tmp_path: Path) -> None:
    folder = tmp_path / "e"
    env = open_environment(folder, max_dbs=0, sync=False)
    sums = PageChecksums(folder)
    for number in range(3):
        sums.commit(lambda number=number: run_write(env, lambda txn: write(txn, {1: 20}, number)))  # type: ignore[misc]
    kept = (folder / PAGES_FILE).read_bytes()
    for number in range(2):
        run_write(env, lambda txn, number=number: write(txn, {1: 30}, number))  # type: ignore[misc]
    with pytest.raises(PagesDamaged, match="transaction"):
        PageChecksums(folder).verify()
    (folder / PAGES_FILE).write_bytes(kept[:50])
    PageChecksums(folder).verify()
    close_environment(folder)


def test_pages_are_compared_while_another_goes_on_writing(tmp_path: Path) -> None:
    folder = tmp_path / "e"
    env = open_environment(folder, max_dbs=0, sync=False)
    writer, checker = PageChecksums(folder), Slow(folder)
    writer.commit(lambda: run_write(env, lambda txn: write(txn, "fill", 0)))

    def write_more() -> None:
        for number in range(10):
            writer.commit(lambda: run_write(env, lambda txn: write(txn, {number * 250: 100}, number)))  # noqa: B023

    checker.meanwhile = write_more
    for _ in range(20):
        with ExitStack() as stack:
            checker.check(lambda: stack.enter_context(read_transaction(env)))
    close_environment(folder)


@pytest.mark.long
@pytest.mark.parametrize("pinned", [True, False])
def test_a_reader_does_not_wait_for_a_commit_that_takes_long(tmp_path: Path, *, pinned: bool) -> None:
    folder = tmp_path / "e"
    env = open_environment(folder, max_dbs=0, sync=False)
    writer = PageChecksums(folder)
    writer.commit(lambda: run_write(env, lambda txn: write(txn, "fill", 0)))
    began, go_on = threading.Event(), threading.Event()

    def take_long(txn: Any) -> None:
        write(txn, {7: 100}, 1)
        began.set()
        assert go_on.wait(60)

    committing = threading.Thread(target=lambda: writer.commit(lambda: run_write(env, take_long)))
    committing.start()
    try:
        assert began.wait(60)
        with ExitStack() as stack:
            PageChecksums(folder).check((lambda: stack.enter_context(read_transaction(env))) if pinned else None)
        assert committing.is_alive()
    finally:
        go_on.set()
        committing.join()
    PageChecksums(folder).verify()
    close_environment(folder)


class Slow(PageChecksums):
    """Others write before it compares."""

    def meanwhile(self) -> None:
        """What they do."""

    def _compare_all(self, newest: Any) -> None:
        self.meanwhile()
        super()._compare_all(newest)
