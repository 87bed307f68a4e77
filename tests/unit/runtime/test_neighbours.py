"""When a span leaves Spark's cores to others."""

from __future__ import annotations

from hayase.runtime.spans.neighbours import KEPT_S, LOOK_S, Neighbours


class Others:
    """Neighbours with everything in the test's hands."""

    def __init__(self) -> None:
        self.jobs, self.shared, self.executors, self.now = 1, False, frozenset("a"), 0.0
        self.asked: list[bool] = []
        self.look = Neighbours(
            lambda: self.jobs, lambda: self.shared, lambda: self.executors, self.asked.append, lambda: self.now
        ).look

    def after(self, seconds: float) -> list[bool]:
        self.now += seconds
        self.look()
        return self.asked


def test_cores_are_left_to_other_jobs_until_there_have_been_none_for_a_while() -> None:
    others = Others()
    assert others.after(LOOK_S) == []
    others.jobs = 2
    assert others.after(LOOK_S / 2) == []  # not looked yet
    assert others.after(LOOK_S) == [True]
    others.jobs = 1
    assert others.after(LOOK_S) == [True]
    assert others.after(KEPT_S + LOOK_S) == [True, False]


def test_cores_are_left_to_other_applications_of_the_session() -> None:
    others = Others()
    others.shared = True
    assert others.after(LOOK_S) == [True]
    assert others.after(2 * KEPT_S) == [True]


def test_tasks_are_dealt_out_anew_when_a_machine_joins_but_not_when_one_is_lost() -> None:
    others = Others()
    others.executors = frozenset("ab")
    assert others.after(LOOK_S) == [True]
    assert others.after(KEPT_S + LOOK_S) == [True, False]
    others.executors = frozenset("b")
    assert others.after(LOOK_S) == [True, False]
