"""When punctuations are due."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hayase.kernel.node.punctuation import NEVER, Punctuations
from hayase.processor.api import PunctuationType, Punctuator

STREAM, WALL = PunctuationType.STREAM_TIME, PunctuationType.WALL_CLOCK_TIME


class Clocks(dict[str, int]):
    """The clocks of a task, kept from epoch to epoch."""

    def get(self, name: str, default: int = -1) -> int:  # type: ignore[override]
        return super().get(name, default)

    def set(self, name: str, time_ms: int) -> None:
        self[name] = time_ms


def call(node: str, punctuator: Punctuator, time_ms: int) -> None:
    punctuator(time_ms)


def epoch(clocks: Clocks, wall_clock_ms: int = 0) -> Punctuations:
    return Punctuations(clocks, wall_clock_ms, call)


@given(
    st.lists(st.integers(0, 500), max_size=30),
    st.integers(1, 60),
    st.none() | st.integers(0, 100),
    st.lists(st.booleans(), min_size=30, max_size=30),
)
def test_calls_do_not_depend_on_where_epochs_end(
    times: list[int], interval_ms: int, start_ms: int | None, cuts: list[bool]
) -> None:
    def calls(cut: bool) -> list[int]:
        clocks, found, now_ms = Clocks(), list[int](), -1

        def begin() -> Punctuations:
            made = epoch(clocks)
            made.schedule("n", STREAM, found.append, interval_ms, start_ms, keep=True)
            return made

        at_work = begin()
        for time_ms, ends in zip(times, cuts, strict=False):
            now_ms = max(now_ms, time_ms)
            at_work.stream_time(now_ms)
            if ends and cut:
                at_work = begin()
        return found

    assert calls(True) == calls(False)


@given(st.lists(st.integers(0, 500), min_size=1, max_size=30), st.integers(1, 60))
def test_by_stream_time_there_is_one_call_for_each_multiple_that_time_reaches_however_far_it_jumps(
    times: list[int], interval_ms: int
) -> None:
    found: list[int] = []
    at_work = epoch(Clocks())
    at_work.schedule("n", STREAM, found.append, interval_ms, None, keep=True)
    highest = [max(times[: at + 1]) for at in range(len(times))]
    for now_ms in highest:
        at_work.stream_time(now_ms)
    first_in_interval = {now_ms // interval_ms: now_ms for now_ms in reversed(highest)}
    assert found == sorted(first_in_interval.values())


def test_by_the_wall_clock_the_first_call_comes_after_one_interval() -> None:
    clocks, found = Clocks(), list[int]()
    for now_ms in (1000, 1029, 1030, 1031, 1095):
        at_work = epoch(clocks, now_ms)
        at_work.schedule("n", WALL, found.append, 30, None, keep=True)
        at_work.wall_clock()
    assert found == [1030, 1095]


def test_a_start_that_is_over_gives_the_grid() -> None:
    at_work = epoch(Clocks(), 1000)
    at_work.schedule("n", WALL, print, 30, 905, keep=True)
    assert at_work.next_wall_clock_ms() == 1025


def test_those_of_one_time_are_called_in_the_order_in_which_they_were_queued_in_whichever_epoch() -> None:
    clocks, found = Clocks(), list[str]()

    def begin() -> Punctuations:
        made = epoch(clocks)
        made.schedule("n", STREAM, lambda _: found.append("ten"), 10, None, keep=True)
        made.schedule("n", STREAM, lambda _: found.append("twenty-five"), 25, None, keep=True)
        return made

    for now_ms in (30, 45, 50):
        begin().stream_time(now_ms)
    assert found == ["ten", "twenty-five", "ten", "twenty-five", "ten"]


def test_what_is_cancelled_is_not_called_any_more() -> None:
    found: list[int] = []
    at_work = epoch(Clocks())
    timer = at_work.schedule("n", STREAM, lambda now: (found.append(now), timer.cancel())[0], 10, None, keep=True)
    for now_ms in (5, 20, 40):
        at_work.stream_time(now_ms)
    assert found == [5]
    assert at_work.next_wall_clock_ms() == NEVER


def test_a_punctuation_may_schedule_another_one() -> None:
    found: list[int] = []
    at_work = epoch(Clocks())
    at_work.schedule(
        "n",
        STREAM,
        lambda now: at_work.schedule("n", STREAM, found.append, 1000, now, keep=False) and None,
        1000,
        None,
        keep=True,
    )
    at_work.stream_time(7)
    assert found == [7]


def test_one_that_is_cancelled_in_a_later_epoch_of_its_processor_stays_cancelled_when_the_task_moves() -> None:
    first, second, found = Clocks(), Clocks(), list[int]()
    at_work = epoch(first)
    made = at_work.schedule("n", STREAM, found.append, 10, None, keep=True)
    at_work.stream_time(10)
    second.update(first)
    at_work = Punctuations(second, 0, call, at_work)
    made.cancel()
    moved = epoch(second)
    moved.schedule("n", STREAM, found.append, 10, None, keep=True)
    moved.stream_time(100)
    assert found == [10]
