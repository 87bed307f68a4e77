"""When a span leaves Spark's cores to others."""

from __future__ import annotations

from hayase.runtime.driver.core_contention import CHECK_S, QUIET_S, CoreContention


class Others:
    """CoreContention with everything in the test's hands."""

    def __init__(self) -> None:
        self.jobs, self.shared, self.executors, self.now = 1, False, frozenset("a"), 0.0
        self.asked: list[bool] = []
        self.check = CoreContention(
            lambda: self.jobs, lambda: self.shared, lambda: self.executors, self.asked.append, lambda: self.now
        ).check

    def after(self, seconds: float) -> list[bool]:
        self.now += seconds
        self.check()
        return self.asked


def test_cores_are_left_to_other_jobs_until_there_have_been_none_for_a_while() -> None:
    others = Others()
    assert others.after(CHECK_S) == []
    others.jobs = 2
    assert others.after(CHECK_S / 2) == []  # not looked yet
    assert others.after(CHECK_S) == [True]
    others.jobs = 1
    assert others.after(CHECK_S) == [True]
    assert others.after(QUIET_S + CHECK_S) == [True, False]


def test_cores_are_left_to_other_applications_of_the_session() -> None:
    others = Others()
    others.shared = True
    assert others.after(CHECK_S) == [True]
    assert others.after(2 * QUIET_S) == [True]


def test_tasks_are_dealt_out_anew_when_a_machine_joins_but_not_when_one_is_lost() -> None:
    others = Others()
    others.executors = frozenset("ab")
    assert others.after(CHECK_S) == [True]
    assert others.after(QUIET_S + CHECK_S) == [True, False]
    others.executors = frozenset("b")
    assert others.after(CHECK_S) == [True, False]
