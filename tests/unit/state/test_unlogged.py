"""Stores without changelog are used only where they are after the same delta as the state."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hayase.core.errors import StateError
from hayase.state.delta.delta import Delta
from hayase.state.environment.bundle import BundleState
from hayase.state.environment.epoch import EpochState
from hayase.state.environment.unlogged import UnloggedStores
from hayase.storage.lmdb_env import close_environment


class Bundle:
    """A state and its unlogged store `u`, beside a logged one `l`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.state = BundleState(folder / "state", application_id="a", checkpoint_id="l", bundle="b")
        self.unlogged = UnloggedStores(self.state, {folder / "unlogged": frozenset({"u"})})

    def write(self, value: bytes) -> tuple[EpochState, Delta]:
        """What an attempt has when it has processed an epoch that puts the value into both stores."""
        with self.unlogged.begin() as epoch:
            for name in ("u", "l"):
                epoch.task("0_0").store(name).put(b"k%d" % (epoch.epoch + 1), value)
            delta = Delta("a", "l", "b", epoch.epoch + 1, "r", epoch.epoch, epoch.digest, epoch.changes())
            return epoch, delta

    def run(self, value: bytes = b"v") -> None:
        """A whole epoch."""
        epoch, delta = self.write(value)
        self.unlogged.apply(epoch, delta)
        self.state.apply(delta)

    def rows(self, name: str) -> list[bytes]:
        """Keys of a store, as an epoch sees it."""
        with self.unlogged.begin() as epoch:
            return [key for key, _ in epoch.task("0_0").store(name).range()]

    def close(self) -> None:
        self.unlogged.close()
        self.state.close()
        for name in ("state", "unlogged"):
            close_environment(self.folder / name)


@pytest.fixture
def bundle(tmp_path: Path) -> Iterator[Bundle]:
    made = Bundle(tmp_path)
    yield made
    made.close()


def test_a_delta_tells_nothing_of_it(bundle: Bundle) -> None:
    _, delta = bundle.write(b"v")
    assert set(delta.changes.stores) == {("0_0", "l")}


def test_it_is_as_the_last_epoch_left_it(bundle: Bundle) -> None:
    for _ in range(3):
        bundle.run()
    assert bundle.rows("u") == bundle.rows("l") == [b"k0", b"k1", b"k2"]


def test_it_begins_empty_behind_a_delta_that_another_attempt_applied(bundle: Bundle) -> None:
    bundle.run()
    _, delta = bundle.write(b"v")
    bundle.state.apply(delta)
    assert (bundle.rows("u"), bundle.rows("l")) == ([], [b"k0", b"k1"])
    bundle.run()
    assert bundle.rows("u") == [b"k2"]


def test_an_attempt_that_comes_too_late_writes_nothing_to_it(bundle: Bundle) -> None:
    bundle.run()
    epoch, delta = bundle.write(b"late")
    bundle.state.apply(delta)
    assert bundle.rows("u") == []
    bundle.unlogged.apply(epoch, delta)
    assert bundle.rows("u") == []


def test_it_fits_again_when_the_state_catches_up_with_it(bundle: Bundle) -> None:
    bundle.run()
    epoch, delta = bundle.write(b"v")
    bundle.unlogged.apply(epoch, delta)
    bundle.state.apply(delta)
    assert bundle.rows("u") == [b"k0", b"k1"]


def test_an_attempt_beside_one_that_is_just_applying_gives_up_and_loses_nothing(
    bundle: Bundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle.run()
    epoch, delta = bundle.write(b"v")
    bundle.unlogged.apply(epoch, delta)
    monkeypatch.setattr("hayase.state.environment.unlogged.time.sleep", lambda _: bundle.state.apply(delta))
    with pytest.raises(StateError, match="another attempt"):
        bundle.unlogged.begin()
    assert bundle.rows("u") == [b"k0", b"k1"]


@pytest.mark.long
def test_it_begins_empty_when_the_state_was_set_back(bundle: Bundle) -> None:
    for _ in range(2):
        bundle.run()
    bundle.state.wipe()
    assert bundle.rows("u") == []


@pytest.mark.long
def test_it_begins_empty_when_the_state_went_another_way(bundle: Bundle) -> None:
    bundle.run(b"one")
    bundle.state.wipe()
    _, delta = bundle.write(b"other")
    bundle.state.apply(delta)
    assert (bundle.rows("u"), bundle.rows("l")) == ([], [b"k0"])
