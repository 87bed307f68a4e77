"""One worker of connectors for each group."""

from __future__ import annotations

import os
from collections.abc import Callable

import msgspec
import pytest

from hayase.connect.worker_lease import WorkerLease
from hayase.core.errors import LeaseHeldError
from hayase.log.protocol import Log, Marker
from hayase.state.lease_holder import Holder, this_process

LONG_S = 3600.0


class Time:
    """A clock that goes on only while a caller sleeps, and may do something then."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.meanwhile: Callable[[], None] = lambda: None

    def monotonic(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds
        self.meanwhile()


def lease(log: Log, time: Time | None = None, on_lost: Callable[[], None] = lambda: None) -> WorkerLease:
    """A lease that is renewed only when the test does so."""
    time = time or Time()
    return WorkerLease(log, "shop", on_lost, beat_s=LONG_S, monotonic=time.monotonic, sleep=time.sleep)


def beat(log: Log, number: int, **more: object) -> None:
    """A beat of a worker on another machine."""
    holder = msgspec.structs.replace(Holder("theirs", "another machine", "far", 1, 1.0), **more)
    writer = log.writer()
    marker = Marker("connect/shop", number, msgspec.json.encode(holder).decode())
    assert writer.publish_epoch("shop", "worker", marker, [])
    writer.close()


def test_a_second_worker_of_a_group_is_refused_and_the_first_goes_on(log: Log) -> None:
    with lease(log) as first:
        with pytest.raises(LeaseHeldError, match=f"pid {os.getpid()} on .* another group.id") as refused, lease(log):
            pass
        assert refused.value.condition == "LEASE_HELD"
        assert first.renew()


def test_workers_of_two_groups_run_side_by_side(log: Log) -> None:
    with lease(log), WorkerLease(log, "other", lambda: None, beat_s=LONG_S) as other:
        assert other.renew()


def test_a_worker_that_has_stopped_is_followed_at_once(log: Log) -> None:
    time = Time()
    with lease(log):
        pass
    with lease(log, time) as following:
        assert following.renew()
    assert time.now_s == 0


def test_a_worker_of_this_machine_that_was_killed_is_followed_at_once(log: Log) -> None:
    time = Time()
    beat(log, 1, machine=this_process().machine, pid=os.getpid(), born=1.0)  # another process had that id
    with lease(log, time) as following:
        assert following.renew()
    assert time.now_s == 0


def test_a_silent_worker_on_another_machine_is_followed_after_twenty_seconds(log: Log) -> None:
    time = Time()
    beat(log, 7)
    with lease(log, time) as following:
        assert following.renew()
    assert 20 <= time.now_s < 21


def test_a_worker_on_another_machine_that_lives_is_left_alone(log: Log) -> None:
    time = Time()
    beat(log, 1)
    time.meanwhile = lambda: beat(log, 2) if time.now_s == 5 else None
    with pytest.raises(LeaseHeldError, match="pid 1 on far"), lease(log, time):
        pass
    assert time.now_s == 5


def test_a_worker_that_was_silent_finds_out_that_another_one_has_taken_over(log: Log) -> None:
    told: list[str] = []
    with lease(log, on_lost=lambda: told.append("lost")) as first:
        beat(log, 2)
        assert not first.renew()
        assert not first.renew()
        assert first.lost is not None
        assert first.lost.condition == "LEASE_LOST"
        assert "pid 1 on far" in first.lost.message
    assert told == ["lost"]
    beat(log, 3)  # the one that was lost has given nothing back
