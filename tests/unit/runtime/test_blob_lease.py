"""One running copy per application, in a store that has no locks."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time as clock
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import psutil
import pytest

from hayase.core.errors import LeaseHeldError, StorageError
from hayase.runtime.driver.blob_lease import BlobLease, blob_lease_holder
from hayase.state.lease_holder import Holder
from hayase.storage.posix_blobs import PosixBlobs

HOLD = """
import sys, time
from pathlib import Path
from hayase.runtime.driver.blob_lease import BlobLease
from hayase.storage.posix_blobs import PosixBlobs
with BlobLease(PosixBlobs(Path(sys.argv[1])), "app"):
    print("held", flush=True)
    time.sleep(60)
"""
LONG = 3600.0


class Time:
    """A clock that goes on only while a caller sleeps, and may do something then."""

    def __init__(self) -> None:
        self.now = 0.0
        self.meanwhile = lambda: None

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.meanwhile()


@pytest.fixture
def blobs(tmp_path: Path) -> PosixBlobs:
    return PosixBlobs(tmp_path, fsync=False)


@pytest.fixture
def time() -> Time:
    return Time()


def lease(blobs: PosixBlobs, time: Time) -> BlobLease:
    """A lease that is renewed only when the test does so."""
    return BlobLease(blobs, "app", beat_s=LONG, patience_s=20.0, monotonic=time.monotonic, sleep=time.sleep)


def publish(blobs: PosixBlobs, name: str, holder: Holder) -> None:
    assert blobs.put_if_absent(f"lease/{name}", msgspec.json.encode(holder))


def elsewhere(**more: object) -> Holder:
    return msgspec.structs.replace(Holder("theirs", "another machine", "far", 1, 1.0), **more)


def beat(term: int, number: int) -> str:
    return f"{term:012d}-{number:012d}"


def test_a_second_copy_is_refused_at_once_while_the_first_lives(blobs: PosixBlobs, time: Time) -> None:
    with lease(blobs, time) as first:
        with pytest.raises(LeaseHeldError, match="is running already"), lease(blobs, time):
            pass
        assert first.renew() and first.lost() is None
    assert time.now == 0
    with lease(blobs, time):
        pass


def test_a_holder_of_this_machine_that_was_killed_is_followed_at_once(blobs: PosixBlobs, time: Time) -> None:
    first = subprocess.Popen([sys.executable, "-c", HOLD, str(blobs.root)], stdout=subprocess.PIPE, text=True)
    try:
        assert first.stdout is not None and first.stdout.readline() == "held\n"
        with pytest.raises(LeaseHeldError, match=f"pid {first.pid}"), lease(blobs, time):
            pass
    finally:
        first.kill()
        first.wait()
    with lease(blobs, time):
        assert time.now == 0


def test_a_silent_holder_on_another_machine_is_followed_when_patience_ends(blobs: PosixBlobs, time: Time) -> None:
    publish(blobs, beat(3, 8), elsewhere())
    with lease(blobs, time):
        assert 20 <= time.now < 25
        assert blobs.list("lease/") == [f"lease/{beat(4, 0)}"]


def test_a_holder_on_another_machine_that_says_something_is_left_alone(blobs: PosixBlobs, time: Time) -> None:
    publish(blobs, beat(3, 8), elsewhere())

    def live() -> None:
        if time.now > 10 and not blobs.exists(f"lease/{beat(3, 9)}"):
            publish(blobs, beat(3, 9), elsewhere())
            blobs.delete(f"lease/{beat(3, 8)}")

    time.meanwhile = live
    with pytest.raises(LeaseHeldError, match="pid 1 on far"), lease(blobs, time):
        pass
    assert time.now < 20 and blobs.list("lease/") == [f"lease/{beat(3, 9)}"]


def test_a_lease_given_back_elsewhere_meanwhile_is_taken(blobs: PosixBlobs, time: Time) -> None:
    publish(blobs, beat(1, 0), elsewhere())
    time.meanwhile = lambda: blobs.put_if_absent(f"lease/{beat(1, 1)}", msgspec.json.encode(elsewhere(released=True)))
    with lease(blobs, time):
        assert time.now < 5


def test_a_holder_that_was_followed_finds_out_and_takes_nothing_from_its_follower(
    blobs: PosixBlobs, time: Time
) -> None:
    with lease(blobs, time) as first:
        publish(blobs, beat(2, 0), elsewhere())
        assert not first.renew()
        lost = first.lost()
        assert lost is not None and lost.condition == "LEASE_LOST" and "far" in lost.message
    assert f"lease/{beat(2, 0)}" in blobs.list("lease/")
    assert first.lost() is lost


def test_a_holder_does_not_take_the_beat_of_another_for_its_own(blobs: PosixBlobs, time: Time) -> None:
    with lease(blobs, time) as first:
        blobs.delete(f"lease/{beat(1, 0)}")
        publish(blobs, beat(1, 0), elsewhere())
        assert not first.renew()


class Doubtful(PosixBlobs):
    """Publishes and then says that it failed."""

    fails = False

    def put_if_absent(self, name: str, data: bytes) -> bool:
        done = super().put_if_absent(name, data)
        if self.fails:
            raise StorageError("S3_UNREACHABLE", "no answer")
        return done


def test_a_beat_of_which_no_answer_came_does_not_cost_the_lease(tmp_path: Path, time: Time) -> None:
    blobs = Doubtful(tmp_path, fsync=False)
    with lease(blobs, time) as first:
        blobs.fails = True
        with pytest.raises(StorageError):
            first.renew()
        blobs.fails = False
        assert first.renew() and first.lost() is None
        assert blobs.list("lease/") == [f"lease/{beat(1, 2)}"]


def test_the_holder_renews_by_itself(blobs: PosixBlobs) -> None:
    with BlobLease(blobs, "app", beat_s=0.01):
        while blobs.list("lease/")[-1] < f"lease/{beat(1, 3)}":
            pass


def test_of_many_that_want_it_at_once_one_gets_it(blobs: PosixBlobs, time: Time) -> None:
    publish(blobs, beat(1, 0), elsewhere(released=True))
    leases = [lease(blobs, time) for _ in range(8)]

    def take(each: BlobLease) -> bool:
        try:
            each.__enter__()
        except LeaseHeldError:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(take, leases)).count(True) == 1
    for each in leases:
        each.__exit__(None, None, None)


def test_what_is_to_be_forgotten_goes_when_it_is_given_back(blobs: PosixBlobs, time: Time) -> None:
    with lease(blobs, time) as held:
        held.forget()
    assert blobs.is_empty() or blobs.list("lease/") == []


def test_from_outside_it_shows_who_holds_it(blobs: PosixBlobs, time: Time) -> None:
    assert blob_lease_holder(blobs) is None
    with lease(blobs, time):
        assert blob_lease_holder(blobs) == f"pid {os.getpid()} on {socket.gethostname()}"
    assert blob_lease_holder(blobs) is None
    publish(blobs, beat(8, 0), elsewhere())
    assert blob_lease_holder(blobs) == "pid 1 on far"


def test_a_holder_is_alive_after_the_clock_of_the_machine_was_set(blobs: PosixBlobs, time: Time) -> None:
    with lease(blobs, time), pytest.MonkeyPatch.context() as patch:
        patch.setattr(psutil.Process, "create_time", lambda _: 1.0)
        with pytest.raises(LeaseHeldError), lease(blobs, time):
            pass


def test_a_holder_goes_on_saying_that_it_lives_whatever_went_wrong_once(
    blobs: PosixBlobs, time: Time, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures = [OSError("no room for a thread"), ValueError("an answer that is none")]
    real = blobs.list

    def fail_first(prefix: str) -> list[str]:
        if failures:
            raise failures.pop()
        return real(prefix)

    held = BlobLease(blobs, "app", beat_s=0.01, patience_s=20.0, monotonic=time.monotonic, sleep=time.sleep)
    with held:
        first = real("lease/")
        monkeypatch.setattr(blobs, "list", fail_first)
        deadline = clock.monotonic() + 20
        while failures or real("lease/") == first:
            assert clock.monotonic() < deadline, "the thread that renews the lease has died"
            clock.sleep(0.01)
        assert held.lost() is None
