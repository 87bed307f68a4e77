"""What is done about an error that ends the query."""

from __future__ import annotations

import pytest

from hayase import StreamThreadExceptionResponse
from hayase.app.failure_recovery import REPLACEMENTS_MAX, Recovery, shut_down_client
from hayase.core.errors import HayaseError, LogError, ProcessingError, StreamsStoppedError

POISON = ProcessingError("PROCESSING_FAILED", "it failed")
AWAY = LogError("BROKER_UNAVAILABLE", "no answer")


class Hands:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def replace(_: HayaseError) -> StreamThreadExceptionResponse:
    return StreamThreadExceptionResponse.REPLACE_THREAD


def test_by_default_an_error_ends_the_application() -> None:
    assert Recovery(shut_down_client, 300).delay_s(POISON, 0) is None


@pytest.mark.parametrize("answer", ["SHUTDOWN_CLIENT", "SHUTDOWN_APPLICATION"])
def test_both_answers_that_shut_down_end_the_application(answer: str) -> None:
    assert Recovery(lambda _: StreamThreadExceptionResponse(answer), 300).delay_s(POISON, 0) is None


def test_replacements_come_later_and_later_and_not_for_ever() -> None:
    recovery = Recovery(replace, 300)
    delays = [recovery.delay_s(POISON, 0) for _ in range(REPLACEMENTS_MAX + 1)]
    assert delays[:3] == [0.5, 1.0, 2.0]
    assert delays[-2:] == [30.0, None]
    assert recovery.replaced == REPLACEMENTS_MAX
    assert recovery.failed == REPLACEMENTS_MAX + 1


def test_the_last_ten_errors_are_kept_with_their_times() -> None:
    recovery = Recovery(replace, 300, wall_clock=Hands())
    errors = [ProcessingError("PROCESSING_FAILED", f"failure {number}") for number in range(13)]
    for number, error in enumerate(errors):
        recovery.delay_s(error, number)
    assert [(kept.timestamp_ms, kept.error) for kept in recovery.errors] == [(0, error) for error in errors[3:]]


def test_an_epoch_that_came_through_begins_a_new_row() -> None:
    recovery = Recovery(replace, 300)
    assert [recovery.delay_s(POISON, epochs) for epochs in range(REPLACEMENTS_MAX * 2)] == [0.5] * REPLACEMENTS_MAX * 2


def test_the_handler_gets_the_error_and_one_that_fails_ends_the_application() -> None:
    seen: list[HayaseError] = []

    def handler(error: HayaseError) -> StreamThreadExceptionResponse:
        seen.append(error)
        raise RuntimeError("no")

    assert Recovery(handler, 300).delay_s(POISON, 0) is None
    assert seen == [POISON]


def test_an_answer_that_is_none_ends_the_application() -> None:
    assert Recovery(lambda _: None, 300).delay_s(POISON, 0) is None  # type: ignore[arg-type, return-value]


def test_what_passes_by_itself_is_tried_again_until_the_task_timeout_and_nobody_is_asked() -> None:
    clock, asked = Hands(), []
    recovery = Recovery(lambda error: asked.append(error) or shut_down_client(error), 60, clock)  # type: ignore[func-returns-value]
    assert recovery.delay_s(AWAY, 0) is not None
    clock.now = 59
    assert recovery.delay_s(AWAY, 0) is not None
    assert asked == []
    clock.now = 61
    assert recovery.delay_s(AWAY, 0) is None
    assert asked == [AWAY]


def test_progress_in_between_begins_the_task_timeout_anew() -> None:
    clock = Hands()
    recovery = Recovery(shut_down_client, 60, clock)
    recovery.delay_s(AWAY, 0)
    clock.now = 61
    assert recovery.delay_s(AWAY, 1) is not None


def test_a_task_timeout_of_zero_tries_nothing_again() -> None:
    assert Recovery(shut_down_client, 0).delay_s(AWAY, 0) is None


def test_without_spark_there_is_nothing_to_replace() -> None:
    assert Recovery(replace, 300).delay_s(StreamsStoppedError("SPARK_GONE", "gone"), 0) is None
