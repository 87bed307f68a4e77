"""State as of an older epoch or time: what a reader would have seen then, for as long as it is kept."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from tests.unit.query.local_app import EPOCH_MS, START_MS, LocalApp, rows_of, totals_after

from hayase.core.errors import ConfigError, StateError, UnknownStoreError
from hayase.core.time import ManualClock
from hayase.query.stores import StoreHandle
from hayase.state.changelog.history import KEPT
from hayase.state.changelog.snapshot_policy import SnapshotPolicy

pytestmark = pytest.mark.long


def users(store: StoreHandle) -> dict[str, object]:
    return {row.key: row.value for row in store.all()}


def test_a_store_is_opened_as_it_was_after_any_epoch(local: LocalApp) -> None:
    for number in range(6):
        local.epoch(rows_of(number))
    for number in (0, 3, 5):
        store = local.app.store("users", as_of_epoch=number)
        assert users(store) == totals_after(number)
        assert store.all().epoch == store.get("u1").epoch == number
    assert users(local.app.store("users")) == totals_after(5)


def test_as_of_a_time_is_the_last_epoch_begun_by_then(local: LocalApp) -> None:
    for number in range(4):
        local.epoch(rows_of(number))
    begun = START_MS + 3 * EPOCH_MS  # epoch 2
    assert users(local.app.store("users", as_of=begun)) == totals_after(2)
    assert users(local.app.store("users", as_of=begun - 1)) == totals_after(1)
    when = datetime.fromtimestamp((begun + 1) / 1000, UTC)
    assert users(local.app.store("users", as_of=when)) == totals_after(2)
    assert users(local.app.store("users", as_of=datetime(2100, 1, 1, tzinfo=UTC))) == totals_after(3)


def test_a_time_before_the_first_epoch_is_refused_and_the_oldest_is_named(local: LocalApp) -> None:
    local.epoch(rows_of(0))
    with pytest.raises(StateError) as raised:
        local.app.store("users", as_of=START_MS - 1)
    assert raised.value.condition == "TIME_BEFORE_HISTORY"
    assert "epoch 0 of 2023-11-14T22:13:21.000+00:00" in raised.value.message


@pytest.mark.parametrize("epoch", [-1, 1, 99])
def test_an_epoch_that_is_not_through_is_refused(local: LocalApp, epoch: int) -> None:
    local.epoch(rows_of(0))
    local.epoch(rows_of(1), done=False)
    with pytest.raises(ConfigError) as raised:
        local.app.store("users", as_of_epoch=epoch)
    assert raised.value.condition == "INVALID_AS_OF"
    assert "is epoch 0" in raised.value.message


def test_epoch_and_time_together_are_refused(local: LocalApp) -> None:
    local.epoch(rows_of(0))
    with pytest.raises(ConfigError, match="leave one out"):
        local.app.store("users", as_of_epoch=0, as_of=START_MS)


def test_what_was_deleted_below_a_snapshot_is_gone_and_the_error_names_the_oldest_epoch(local: LocalApp) -> None:
    for number in range(3):
        local.epoch(rows_of(number))
    local.snapshots = SnapshotPolicy(min_delta_bytes=0)
    local.epoch(rows_of(3))
    local.snapshots = None
    local.epoch(rows_of(4))
    with pytest.raises(StateError) as raised:
        local.app.store("users", as_of_epoch=2)
    assert raised.value.condition == "HISTORY_GONE"
    assert "the oldest that can is epoch 3" in raised.value.message
    assert local.app.history("users").oldest_epoch == 3
    for number in (3, 4):
        assert users(local.app.store("users", as_of_epoch=number)) == totals_after(number)


def test_what_is_younger_than_the_retention_is_never_deleted(local: LocalApp) -> None:
    clock = ManualClock(START_MS)
    local.snapshots = SnapshotPolicy(min_delta_bytes=0, history_retention_ms=3 * EPOCH_MS, clock=clock)
    number = oldest = 0
    while oldest == 0:  # until something is deleted at last
        local.epoch(rows_of(number))
        clock.advance_ms(EPOCH_MS)
        oldest = local.app.history("users").oldest_epoch
        assert oldest <= max(number - 3, 0)
        number += 1
    assert users(local.app.store("users", as_of_epoch=oldest)) == totals_after(oldest)


def test_history_says_which_epochs_there_are_and_when_they_were_begun(local: LocalApp) -> None:
    for number in range(3):
        local.epoch(rows_of(number))
    found = local.app.history("users")
    assert (found.oldest_epoch, found.newest_epoch) == (0, 2)
    assert (found.oldest_time_ms, found.newest_time_ms) == (START_MS + EPOCH_MS, START_MS + 3 * EPOCH_MS)
    with pytest.raises(UnknownStoreError):
        local.app.history("nothing")


def test_older_epochs_stay_built_while_they_are_read_and_then_only_a_few(local: LocalApp) -> None:
    for number in range(8):
        local.epoch(rows_of(number))
    folder = local.folder / "state" / "app" / "history"
    held = [local.app.store("users", as_of_epoch=number) for number in range(6)]
    assert len(list(folder.iterdir())) == 6
    assert [users(store) for store in held] == [totals_after(number) for number in range(6)]
    held.clear()
    local.app.store("users", as_of_epoch=7)
    assert len(list(folder.iterdir())) == KEPT
    assert users(local.app.store("users", as_of_epoch=0)) == totals_after(0)  # built again


def test_a_second_reader_of_an_older_epoch_finds_it_built_even_if_its_history_is_gone(local: LocalApp) -> None:
    for number in range(3):
        local.epoch(rows_of(number))
    first = local.app.store("users", as_of_epoch=1)
    local.snapshots = SnapshotPolicy(min_delta_bytes=0)
    local.epoch(rows_of(3))
    assert users(first) == users(local.app.store("users", as_of_epoch=1)) == totals_after(1)


def test_several_stores_as_of_an_epoch_agree_with_each_other(local: LocalApp) -> None:
    for number in range(4):
        local.epoch(rows_of(number))
    with local.app.pin("users", "items", "hourly", as_of_epoch=2) as pinned:
        assert pinned.epoch == 2
        by_user = sum(row.value["total"] for row in pinned.store("users").all())
        by_item = sum(row.value["total"] for row in pinned.store("items").all())
        assert by_user == by_item == sum(n for epoch in range(3) for _, _, n in rows_of(epoch))
        windows = pinned.store("hourly").fetch_all(0, START_MS)
        assert {row.value["n"] for row in windows} == {3}
    with local.app.pin("users", as_of_epoch=2) as pinned, pytest.raises(StateError, match="pinned are"):
        pinned.store("items")
