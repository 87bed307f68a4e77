"""The changelog: each delta published once, and any local state brought to where it is."""

from __future__ import annotations

import hashlib
import itertools
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.budget import examples

from hayase.core.errors import CheckpointError, StateError
from hayase.core.time import ManualClock
from hayase.state.changelog.changelog import Changelog
from hayase.state.changelog.snapshot import Manifest, Part
from hayase.state.changelog.snapshot_policy import SnapshotPolicy, delete_history, maybe_snapshot
from hayase.state.delta.changes import StateChanges, StoreChanges
from hayase.state.delta.delta import Delta
from hayase.state.delta.journal import Journal
from hayase.state.environment.bundle import BundleState
from hayase.state.environment.environment import START, Meta
from hayase.storage.lmdb_env import close_environment
from hayase.storage.posix_blobs import PosixBlobs

Content = dict[bytes, bytes]
folders = itertools.count()


@contextmanager
def opened(path: Path) -> Iterator[BundleState]:
    state = BundleState(path, application_id="app", checkpoint_id="l", bundle="b0")
    try:
        yield state
    finally:
        state.close()
        close_environment(path)


@contextmanager
def suppress_gap() -> Iterator[list[StateError]]:
    met: list[StateError] = []
    try:
        yield met
    except StateError as error:
        if error.condition != "CHANGELOG_GAP":
            raise
        met.append(error)


def changes(number: int) -> StateChanges:
    """Each epoch writes a key of its own, overwrites one, and deletes one."""
    keys = [b"own-%d" % number, b"shared-%d" % (number % 3), b"own-%d" % (number - 2)]
    return StateChanges({("0_0", "s"): StoreChanges([], keys, [b"%d" % number, b"%d" % number, None])})


def make(previous: Delta | None, epoch: int, record: str = "r", **more: object) -> Delta:
    prev = (previous.epoch, previous.digest) if previous else START
    delta = Delta("app", "l", "b0", epoch, record, *prev, changes(epoch), Journal(summary=b"s"))
    for name, value in more.items():
        setattr(delta, name, value)
    return delta


def history(changelog: Changelog, epochs: list[int]) -> dict[int, tuple[str, Content]]:
    """Publish deltas; digest and content after each, by epoch (-1 is the beginning)."""
    content: Content = {}
    truth: dict[int, tuple[str, Content]] = {-1: ("", {})}
    previous: Delta | None = None
    for epoch in epochs:
        previous = changelog.publish(make(previous, epoch))
        made = previous.changes.stores["0_0", "s"]
        for key, value in zip(made.keys, made.values, strict=True):
            if value is None:
                content.pop(key, None)
            else:
                content[key] = value
        truth[epoch] = (previous.digest, dict(content))
    return truth


def content_of(state: BundleState) -> Content:
    with state.begin() as epoch:
        return dict(epoch.task("0_0").store("s").range())


def at(truth: dict[int, tuple[str, Content]], epoch: int) -> tuple[int, str, Content]:
    last = max(known for known in truth if known <= epoch)
    return last, *truth[last]


def test_the_loser_is_given_the_delta_that_is_there(tmp_path: Path) -> None:
    changelog = Changelog(PosixBlobs(tmp_path), "b0")
    winner = make(None, 0)
    assert changelog.publish(winner) is winner
    loser = make(None, 0, journal=Journal(summary=b"other"))
    adopted = Changelog(PosixBlobs(tmp_path), "b0").publish(loser)
    assert adopted.journal.summary == b"s" and adopted.digest == winner.digest


@pytest.mark.parametrize(
    "other",
    [{"record_digest": "x"}, {"checkpoint_id": "x"}, {"prev_digest": "x"}, {"prev_epoch": -2}],
    ids=lambda o: next(iter(o)),
)
def test_a_delta_that_was_made_from_something_else_stops_the_application(
    tmp_path: Path, other: dict[str, object]
) -> None:
    changelog = Changelog(PosixBlobs(tmp_path), "b0")
    changelog.publish(make(None, 0))
    with pytest.raises(CheckpointError) as raised:
        changelog.publish(make(None, 0, **other))
    assert raised.value.condition == "DELTA_CONFLICT"


def test_a_damaged_delta_is_named(tmp_path: Path) -> None:
    changelog = Changelog(PosixBlobs(tmp_path), "b0")
    changelog.publish(make(None, 3))
    blob = tmp_path / "changelog" / "b0" / f"{3:020d}"
    blob.write_bytes(blob.read_bytes()[:-1] + b"?")
    with pytest.raises(StateError) as raised:
        changelog.get(3)
    assert raised.value.condition == "DELTA_CORRUPT"
    assert raised.value.context == {"bundle": "b0", "epoch": 3}


@pytest.mark.long
@given(
    gaps=st.lists(st.integers(1, 12), min_size=1, max_size=30),
    snapshots=st.sets(st.integers(0, 29), max_size=3),
    deleted=st.booleans(),
    start=st.integers(-1, 60),
    goal=st.integers(-1, 120),
    restarted=st.booleans(),
)
@settings(max_examples=examples(80), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_state_is_brought_to_any_epoch_that_can_be_reached(
    tmp_path: Path,
    gaps: list[int],
    snapshots: set[int],
    deleted: bool,
    start: int,
    goal: int,
    restarted: bool,
) -> None:
    folder = tmp_path / f"{next(folders)}"
    changelog = Changelog(PosixBlobs(folder / "checkpoint", fsync=False), "b0")
    epochs = list(itertools.accumulate(gaps, initial=-1))[1:]
    truth = history(changelog, epochs)
    with opened(folder / "maker") as maker:
        for place in sorted(snapshots):
            if place < len(epochs):
                assert changelog.catch_up(maker, epochs[place])
                changelog.snapshots.publish(maker, created_ms=0)
    with opened(folder / "state") as state:
        assert changelog.catch_up(state, start)
        assert (*state.position(), content_of(state)) == at(truth, start)
        if deleted:
            delete_history(changelog, before_ms=0)
        oldest = max([epochs[place] for place in snapshots if place < len(epochs)], default=-1) if deleted else -1
        if restarted:
            changelog = Changelog(PosixBlobs(folder / "checkpoint", fsync=False), "b0")
        position = state.position()
        if position.epoch > goal:
            # Rightly ahead if its own delta is there; else it has to be rebuilt, which needs history that is there.
            if position.epoch >= oldest:
                assert not changelog.catch_up(state, goal)
                assert state.position() == position
            return
        reached = at(truth, goal)
        with suppress_gap() as gaps_met:
            assert changelog.catch_up(state, goal)
        if gaps_met:
            # What leads there was deleted: an error, never silently something else.
            assert reached[0] < oldest
        else:
            assert (*state.position(), content_of(state)) == reached


def test_a_straggler_cannot_publish_an_epoch_that_is_history(tmp_path: Path) -> None:
    changelog = Changelog(PosixBlobs(tmp_path / "c"), "b0")
    history(changelog, [0, 1, 2, 3])
    with opened(tmp_path / "maker") as maker:
        changelog.catch_up(maker, 2)
        changelog.snapshots.publish(maker, 0)
    delete_history(changelog, before_ms=0)
    with pytest.raises(StateError) as raised:
        changelog.publish(make(None, 0))
    assert raised.value.condition == "EPOCH_IS_HISTORY" and changelog.epochs() == [2, 3]


def test_a_state_that_is_ahead_of_the_changelog_is_rebuilt(tmp_path: Path) -> None:
    changelog = Changelog(PosixBlobs(tmp_path / "c"), "b0")
    truth = history(changelog, [0, 1, 2, 3])
    with opened(tmp_path / "s") as state:
        changelog.catch_up(state, 3)
        changelog.delete(3)
        changelog = Changelog(PosixBlobs(tmp_path / "c"), "b0")
        assert changelog.catch_up(state, 2)
        assert (*state.position(), content_of(state)) == at(truth, 2)


def test_a_state_whose_delta_is_not_the_published_one_is_rebuilt(tmp_path: Path) -> None:
    changelog = Changelog(PosixBlobs(tmp_path / "c"), "b0")
    truth = history(changelog, [0, 1, 2, 3])
    with opened(tmp_path / "s") as state:
        changelog.catch_up(state, 1)
        prev = state.position()
        state.apply(Delta("app", "l", "b0", 2, "r", *prev, changes(99)))
        assert Changelog(PosixBlobs(tmp_path / "c"), "b0").catch_up(state, 3)
        assert (*state.position(), content_of(state)) == at(truth, 3)


def test_a_gap_is_an_error_that_names_bundle_and_epoch(tmp_path: Path) -> None:
    changelog = Changelog(PosixBlobs(tmp_path / "c"), "b0")
    history(changelog, [0, 1, 2, 3])
    changelog.delete(1)
    with opened(tmp_path / "s") as state:
        with pytest.raises(StateError) as raised:
            changelog.catch_up(state, 3)
        assert raised.value.condition == "CHANGELOG_GAP"
        assert raised.value.context == {"bundle": "b0", "epoch": 2}


def test_a_damaged_delta_in_the_chain_is_an_error_and_no_epoch_is_half_applied(tmp_path: Path) -> None:
    changelog = Changelog(PosixBlobs(tmp_path / "c"), "b0")
    truth = history(changelog, [0, 1, 2, 3])
    blob = tmp_path / "c" / "changelog" / "b0" / f"{2:020d}"
    whole = blob.read_bytes()
    blob.write_bytes(whole[: len(whole) // 2])
    with opened(tmp_path / "s") as state:
        with pytest.raises(StateError) as raised:
            changelog.catch_up(state, 3)
        assert (raised.value.condition, raised.value.context["epoch"]) == ("DELTA_CORRUPT", 2)
        assert state.epoch < 2 and (*state.position(), content_of(state)) == at(truth, state.epoch)
        blob.write_bytes(whole)
        assert changelog.catch_up(state, 3)
        assert (*state.position(), content_of(state)) == at(truth, 3)


@pytest.mark.long
def test_a_half_written_manifest_is_no_snapshot(tmp_path: Path) -> None:
    changelog = Changelog(PosixBlobs(tmp_path / "c"), "b0")
    truth = history(changelog, list(range(40)))
    with opened(tmp_path / "maker") as maker:
        changelog.catch_up(maker, 30)
        changelog.snapshots.publish(maker, 0)
    manifest = tmp_path / "c" / "snapshots" / "b0" / f"{30:020d}"
    manifest.write_bytes(manifest.read_bytes()[:-3])
    delete_history(changelog, before_ms=0)
    assert changelog.epochs() == list(range(40))
    with opened(tmp_path / "s") as state:
        assert changelog.catch_up(state, 39)
        assert (*state.position(), content_of(state)) == at(truth, 39)


def test_apply_catches_up_when_the_state_was_moved_meanwhile(tmp_path: Path) -> None:
    changelog = Changelog(PosixBlobs(tmp_path / "c"), "b0")
    truth = history(changelog, [0, 1, 2])
    with opened(tmp_path / "s") as state:
        changelog.catch_up(state, 1)
        state.wipe()
        delta = changelog.get(2)
        assert delta is not None
        changelog.apply(state, delta)
        assert (*state.position(), content_of(state)) == at(truth, 2)


@pytest.mark.long
def test_a_damaged_snapshot_is_passed_over_while_older_ones_and_deltas_do(tmp_path: Path) -> None:
    changelog = Changelog(PosixBlobs(tmp_path / "c"), "b0")
    truth = history(changelog, list(range(40)))
    with opened(tmp_path / "maker") as maker:
        for epoch in (20, 35):
            changelog.catch_up(maker, epoch)
            changelog.snapshots.publish(maker, 0)
    for epoch in range(10):
        changelog.delete(epoch)
    for part in (tmp_path / "c" / "snapshots" / "b0" / "parts").glob(f"{35:020d}-*"):
        part.write_bytes(part.read_bytes()[:-1])
    with opened(tmp_path / "s") as state:
        assert changelog.catch_up(state, 39)
        assert (*state.position(), content_of(state)) == at(truth, 39)


@pytest.mark.long
def test_a_snapshot_is_cut_into_parts_and_comes_back_whole(tmp_path: Path) -> None:
    changelog = Changelog(PosixBlobs(tmp_path / "c"), "b0")
    changelog.snapshots._part_bytes = 5000
    truth = history(changelog, list(range(30)))
    with opened(tmp_path / "maker") as maker:
        changelog.catch_up(maker, 29)
        manifest = changelog.snapshots.publish(maker, 0)
    assert len(manifest.parts) > 1 and manifest.epoch == 29
    with opened(tmp_path / "s") as state:
        changelog.catch_up(state, 29)
        assert (*state.position(), content_of(state)) == at(truth, 29)
        assert state.meta().delta_bytes == manifest.delta_bytes


def test_parts_that_never_became_a_snapshot_are_deleted_with_history(tmp_path: Path) -> None:
    blobs = PosixBlobs(tmp_path / "c")
    changelog = Changelog(blobs, "b0")
    history(changelog, [0, 1, 2])
    blobs.put_if_absent(f"snapshots/b0/parts/{1:020d}-000000-ab", b"left by a process that was killed")
    with opened(tmp_path / "s") as state:
        changelog.catch_up(state, 2)
        manifest = changelog.snapshots.publish(state, 0)
    delete_history(changelog, before_ms=0)
    assert blobs.list("snapshots/b0/parts/") == [part.name for part in manifest.parts]
    assert changelog.epochs() == [2]


def policy(clock: ManualClock, failures: list[Exception], retention_ms: int = 0) -> SnapshotPolicy:
    return SnapshotPolicy(min_delta_bytes=3000, history_retention_ms=retention_ms, clock=clock, report=failures.append)


def run_epochs(changelog: Changelog, state: BundleState, rule: SnapshotPolicy, count: int) -> list[int]:
    """Epochs at which a snapshot was made."""
    made: list[int] = []
    for _ in range(count):
        position = state.position()
        delta = Delta("app", "l", "b0", position.epoch + 1, "r", *position, changes(position.epoch + 1))
        state.apply(changelog.publish(delta))
        manifest = maybe_snapshot(state, changelog, rule)
        made += [manifest.epoch] if manifest else []
    return made


def test_snapshots_are_made_as_deltas_grow_and_what_lies_below_is_deleted(tmp_path: Path) -> None:
    changelog = Changelog(PosixBlobs(tmp_path / "c", fsync=False), "b0")
    failures: list[Exception] = []
    with opened(tmp_path / "s") as state:
        made = run_epochs(changelog, state, policy(ManualClock(), failures), 60)
        expected = content_of(state)
    assert failures == [] and len(made) >= 2
    assert changelog.epochs() == list(range(made[-1], 60)) and changelog.snapshots.epochs() == made[-1:]
    with opened(tmp_path / "new") as state:
        assert Changelog(PosixBlobs(tmp_path / "c"), "b0").catch_up(state, 59)
        assert content_of(state) == expected


def test_snapshots_are_made_after_many_deltas_however_small_they_are(tmp_path: Path) -> None:
    changelog = Changelog(PosixBlobs(tmp_path / "c", fsync=False), "b0")
    with opened(tmp_path / "s") as state:
        made = run_epochs(changelog, state, SnapshotPolicy(max_deltas=10), 35)
    assert made == [10, 21, 32] and changelog.epochs() == [32, 33, 34]


def test_snapshots_are_made_when_replaying_the_deltas_would_take_too_long(tmp_path: Path) -> None:
    changelog = Changelog(PosixBlobs(tmp_path / "c", fsync=False), "b0")
    with opened(tmp_path / "s") as state:
        made = run_epochs(changelog, state, SnapshotPolicy(restore_max_ms=10), 45)
        assert [later - earlier for earlier, later in itertools.pairwise([-1, *made])] == [19, 19]
        assert state.meta().deltas == 45


def test_a_snapshot_is_not_repeated_before_it_saves_as_much_as_loading_the_last_one_takes() -> None:
    rule, large = SnapshotPolicy(), 1 << 40
    last = Manifest("l", "b0", 0, "d", 0, 0, [Part("p", large, b"")])
    meta = Meta(1, "app", "l", "b0", deltas=rule.max_deltas, delta_bytes=1 << 30)
    assert rule.due(meta, None) and not rule.due(meta, last)
    assert rule.due(msgspec.structs.replace(meta, deltas=rule.max_deltas + 1), last)


def test_states_and_snapshots_of_before_deltas_were_counted_are_read(tmp_path: Path) -> None:
    old = msgspec.msgpack.encode([1, "app", "l", "b0", 5, "d", 257, 1000])
    assert msgspec.msgpack.decode(old, type=Meta).deltas == 0
    changelog = Changelog(PosixBlobs(tmp_path / "c"), "b0")
    truth = history(changelog, list(range(4)))
    with opened(tmp_path / "maker") as maker:
        changelog.catch_up(maker, 3)
        manifest = changelog.snapshots.publish(maker, 0)
    name = f"snapshots/b0/{3:020d}"
    fields = msgspec.structs.asdict(manifest)
    del fields["deltas"]
    fields["lineage"] = fields.pop("checkpoint_id")
    body = msgspec.msgpack.encode(fields)
    blobs = PosixBlobs(tmp_path / "c")
    blobs.delete(name)
    blobs.put_if_absent(name, body + hashlib.blake2b(body, digest_size=16).digest())
    for epoch in range(3):
        changelog.delete(epoch)
    with opened(tmp_path / "s") as state:
        Changelog(blobs, "b0").catch_up(state, 3)
        assert (*state.position(), content_of(state)) == at(truth, 3)


@pytest.mark.long
def test_history_younger_than_the_retention_is_kept(tmp_path: Path) -> None:
    changelog = Changelog(PosixBlobs(tmp_path / "c", fsync=False), "b0")
    clock, failures = ManualClock(1_000_000), list[Exception]()
    rule = policy(clock, failures, retention_ms=1000)
    with opened(tmp_path / "s") as state:
        made = run_epochs(changelog, state, rule, 60)
        assert len(made) >= 2 and changelog.epochs() == list(range(60)) and changelog.snapshots.epochs() == made
        clock.advance_ms(1000)
        later = run_epochs(changelog, state, rule, 60)
    assert failures == []
    assert changelog.epochs()[0] == made[-1] and changelog.snapshots.epochs() == [made[-1], *later]


@pytest.mark.long
def test_a_snapshot_that_fails_is_reported_and_fatal_for_nobody(tmp_path: Path) -> None:
    class Refusing(PosixBlobs):
        def put_if_absent(self, name: str, data: bytes) -> bool:
            if name.startswith("snapshots/"):
                raise StateError("DISK_FULL", "full")
            return super().put_if_absent(name, data)

    changelog = Changelog(Refusing(tmp_path / "c", fsync=False), "b0")
    failures: list[Exception] = []
    with opened(tmp_path / "s") as state:
        made = run_epochs(changelog, state, policy(ManualClock(), failures), 20)
    assert made == [] and failures and changelog.epochs() == list(range(20))
    assert not list((tmp_path / "s").glob("temporary-*"))


def test_a_state_whose_folder_is_deleted_under_a_living_process_is_rebuilt(tmp_path: Path) -> None:
    changelog = Changelog(PosixBlobs(tmp_path / "blobs"), "b0")
    truth = history(changelog, [0, 1, 2, 3])
    with opened(tmp_path / "state") as state:
        changelog.catch_up(state, 1)
        shutil.rmtree(tmp_path / "state")
        changelog.catch_up(state, 3)
        assert (state.epoch, state.digest, content_of(state)) == at(truth, 3)


class Counting(PosixBlobs):
    """Counts how often the folder of snapshots is listed."""

    listed = 0

    def list(self, folder: str) -> list[str]:
        self.listed += folder.startswith("snapshots/")
        return super().list(folder)


def test_snapshots_are_listed_once_not_for_every_delta(tmp_path: Path) -> None:
    blobs = Counting(tmp_path)
    history(Changelog(blobs, "b0"), list(range(10)))
    assert blobs.listed == 1


def test_a_state_ahead_of_a_restored_checkpoint_is_rebuilt_from_it_and_the_log_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    blobs = PosixBlobs(tmp_path / "c", fsync=False)
    truth = history(Changelog(blobs, "b0"), list(range(10)))
    with opened(tmp_path / "s") as state:
        Changelog(blobs, "b0").catch_up(state, 9)
        for epoch in range(4, 10):  # a copy of the checkpoint of epoch 3 is restored
            Changelog(blobs, "b0").delete(epoch)
        assert Changelog(blobs, "b0").catch_up(state, 3)
        assert (*state.position(), content_of(state)) == at(truth, 3)
        assert "is at epoch 9, which the checkpoint does not know" in caplog.text
        history_again = Changelog(blobs, "b0")
        for epoch in range(4, 8):  # and other epochs follow
            history_again.publish(make(history_again.get(epoch - 1), epoch, record="another"))
    with opened(tmp_path / "old") as state:
        other = PosixBlobs(tmp_path / "first", fsync=False)
        history(Changelog(other, "b0"), list(range(6)))
        Changelog(other, "b0").catch_up(state, 5)
        assert Changelog(blobs, "b0").catch_up(state, 7)
        last = Changelog(blobs, "b0").get(7)
        assert last is not None and state.position() == (7, last.digest)


@pytest.mark.long
def test_a_state_older_than_the_history_that_is_kept_is_replaced_by_a_snapshot_and_not_called_foreign(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    blobs = PosixBlobs(tmp_path / "c", fsync=False)
    clock, failures = ManualClock(0), list[Exception]()
    with opened(tmp_path / "late") as late, opened(tmp_path / "s") as state:
        run_epochs(Changelog(blobs, "b0"), state, policy(clock, failures), 3)
        Changelog(blobs, "b0").catch_up(late, 2)
        run_epochs(Changelog(blobs, "b0"), state, policy(clock, failures), 60)
        changelog = Changelog(blobs, "b0")
        last = changelog.epochs()[-1]
        assert changelog.epochs()[0] > 3, "history was deleted"
        monkeypatch.setattr(late, "wipe", None)
        assert changelog.catch_up(late, last)
        assert (late.position(), content_of(late)) == (state.position(), content_of(state))
    assert not caplog.messages and not failures


def test_a_gap_names_the_blob_that_is_missing(tmp_path: Path) -> None:
    blobs = PosixBlobs(tmp_path / "c", fsync=False)
    history(Changelog(blobs, "b0"), list(range(6)))
    Changelog(blobs, "b0").delete(3)
    with opened(tmp_path / "s") as state, suppress_gap() as met:
        Changelog(blobs, "b0").catch_up(state, 5)
    assert f"changelog/b0/{3:020d} is not in the checkpoint" in met[0].message


def test_files_of_others_in_the_checkpoint_are_no_epochs(tmp_path: Path) -> None:
    blobs = PosixBlobs(tmp_path / "c", fsync=False)
    changelog = Changelog(blobs, "b0")
    truth = history(changelog, list(range(12)))
    for folder in ("changelog/b0", "changelog/b0/parts", "snapshots/b0", "snapshots/b0/parts"):
        (tmp_path / "c" / folder).mkdir(parents=True, exist_ok=True)
        for name in (".DS_Store", f"{3:020d}~", f"{3:020d} (copy)", "notes.txt"):
            (tmp_path / "c" / folder / name).write_text("not ours")
    with opened(tmp_path / "s") as state:
        assert changelog.catch_up(state, 11)
        assert (*state.position(), content_of(state)) == at(truth, 11)
        changelog.snapshots.publish(state, 0)
    delete_history(changelog, 1)
    assert changelog.epochs() == [11] and changelog.snapshots.epochs() == [11]
    assert (tmp_path / "c/changelog/b0/notes.txt").exists()
