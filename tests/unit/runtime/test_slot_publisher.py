"""What several topologies of a slot have ready: together, or one by one where that fails."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from hayase.core.errors import LogError, ProductionError
from hayase.runtime.worker.slot_publisher import publish_together

GROUPS = (("a0", "a1"), ("b0",), ("c0",))


class Log:
    """A log that refuses some steps."""

    def __init__(self, refused: str = "") -> None:
        self.refused = refused
        self.transactions: list[list[str]] = []

    def write(self, steps: Sequence[str]) -> list[bool]:
        if self.refused in steps:
            raise ProductionError("RECORD_REFUSED", "too large")
        self.transactions.append(list(steps))
        return [step != "a1" for step in steps]

    def write_alone(self, number: int) -> list[bool]:
        return self.write(GROUPS[number])


def test_all_is_written_in_one_transaction_and_each_topology_learns_of_its_own_steps() -> None:
    log = Log()
    assert publish_together(GROUPS, log.write, log.write_alone) == [[True, False], [True], [True]]
    assert log.transactions == [["a0", "a1", "b0", "c0"]]


def test_the_topology_whose_record_is_refused_fails_alone() -> None:
    log = Log(refused="b0")
    first, refused, last = publish_together(GROUPS, log.write, log.write_alone)
    assert (first, last) == ([True, False], [True])
    assert isinstance(refused, ProductionError)
    assert log.transactions == [["a0", "a1"], ["c0"]]


def test_outputs_that_cannot_be_read_from_disk_fail_their_topology_alone() -> None:
    class Unreadable(Log):
        def write(self, steps: Sequence[str]) -> list[bool]:
            if "b0" in steps:
                raise OSError("a spilled part is gone")
            return super().write(steps)

    log = Unreadable()
    first, failed, last = publish_together(GROUPS, log.write, log.write_alone)
    assert (first, last) == ([True, False], [True]) and isinstance(failed, OSError)


def test_a_topology_that_has_nothing_beside_it_is_written_alone_at_once() -> None:
    log = Log()

    def never(steps: Sequence[str]) -> list[bool]:
        raise AssertionError(steps)

    assert publish_together(GROUPS[1:2], never, lambda _: log.write(GROUPS[1])) == [[True]]


def test_an_error_that_is_none_of_the_logs_ends_no_other_topology() -> None:
    def write(steps: Sequence[str]) -> list[bool]:
        raise LogError("BROKER_UNAVAILABLE", "away")

    def alone(number: int) -> list[bool]:
        if number == 1:
            raise ZeroDivisionError
        return [True] * len(GROUPS[number])

    first, failed, last = publish_together(GROUPS, write, alone)
    assert (first, last) == ([True, True], [True])
    assert isinstance(failed, ZeroDivisionError)


def test_what_is_no_error_of_the_log_is_not_tried_again() -> None:
    def write(steps: Sequence[str]) -> list[bool]:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        publish_together(GROUPS, write, lambda _: [True])
