"""Finding the worker's own error in Spark's account."""

from __future__ import annotations

import errno
from pathlib import Path

from hayase.core.errors import SerializationError
from hayase.runtime.wire.failure import find_error, query_failure, spark_gone, start_failure


def test_the_error_of_a_worker_comes_back_with_type_condition_and_context() -> None:
    raised = SerializationError("DESERIALIZATION_FAILED", "no JSON (really); fix it", topic="orders", offset=7)
    text = (
        f"Traceback (most recent call last):\n  File x\nhayase.core.errors.SerializationError: {raised}\n SQLSTATE: "
        "38000"
    )
    found = find_error(text)
    assert type(found) is SerializationError
    assert (found.condition, found.message) == ("DESERIALIZATION_FAILED", "no JSON (really); fix it")
    assert dict(found.context) == {"topic": "orders", "offset": "7"}


def test_an_error_that_is_not_ours_is_not_invented() -> None:
    assert find_error("java.lang.OutOfMemoryError: Java heap space") is None


ENDING = "\n=== Streaming Query ===\nIdentifier: app\nLogical Plan:\nWriteToMicroBatchDataSource noop-table"


def test_any_other_python_error_is_told_in_one_line_with_where_to_read_on() -> None:
    text = (
        "[STREAM_FAILED] Query\nTraceback (most recent call last):\n  File x\nbuiltins.ValueError: too\tmuch\n\tat "
        "org.a.B"
    )
    error = query_failure(text + ENDING, Path("/var/spark.log"))
    assert error.condition == "SPARK_FAILED"
    assert error.message == "the Spark query failed: ValueError: too much; Spark's account is in /var/spark.log"


def test_a_failure_without_any_python_in_it_is_told_in_one_line_too() -> None:
    error = query_failure("Job aborted\n\tat org.apache.Foo\n" + "x" * 5000 + ENDING, Path("spark.log"))
    assert error.message.startswith("the Spark query failed: Job aborted xxx")
    assert len(error.message) < 400
    assert "\n" not in error.message
    assert "noop" not in error.message


def test_a_planner_that_died_is_a_condition_of_its_own_unless_an_error_says_more() -> None:
    assert query_failure("(no cause message)", Path("s"), planner_lost=True).condition == "PLANNER_LOST"
    crashed = "Job aborted due to stage failure: Task 1 in stage 0.0 failed 4 times: Python worker exited unexpectedly"
    assert query_failure(crashed, Path("s"), planner_lost=True).condition == "SPARK_FAILED"
    said = "hayase.core.errors.LogError: [BROKER_UNAVAILABLE] no answer"
    assert query_failure(said, Path("s"), planner_lost=True).condition == "BROKER_UNAVAILABLE"
    raised = "[PYTHON_EXCEPTION] An exception was thrown from the Python worker: Traceback (most recent call last):\n"
    of_task = query_failure(
        f'{raised}polars.exceptions.ColumnNotFoundError: "x" not found', Path("s"), planner_lost=True
    )
    assert of_task.condition == "SPARK_FAILED"
    assert 'ColumnNotFoundError: "x" not found' in of_task.message


def test_a_process_that_did_not_start_in_time_is_a_condition_of_its_own() -> None:
    text = "org.apache.spark.SparkException: Python worker failed to connect back.\n\tat org.apache"
    assert query_failure(text, Path("s")).condition == "PROCESS_NOT_STARTED"


def test_executors_that_were_lost_again_and_again_are_a_condition_of_their_own() -> None:
    lost = (
        "Job aborted due to stage failure: Task 0 in stage 5.0 failed 4 times, most recent failure: ExecutorLostFailure"
    )
    assert query_failure(lost, Path("s"), planner_lost=True).condition == "EXECUTOR_LOST"


def test_spark_that_does_not_start_is_told_in_one_line() -> None:
    text = "An error occurred while calling o1.load.\n: java.lang.IllegalStateException: stopped\n\tat org.apache.Foo"
    error = start_failure(text, Path("/var/spark.log"))
    assert error.condition == "SPARK_FAILED"
    assert error.message.endswith("IllegalStateException: stopped; Spark's account is in /var/spark.log")


def test_a_full_disk_is_the_same_error_whichever_process_met_it() -> None:
    java = "org.apache.spark.SparkException: java.io.IOException: No space left on device"
    python = "Traceback ...\nOSError: [Errno 28] No space left on device: '/data/x'"
    for text in (java, python):
        error = query_failure(text, Path("/state/app/spark.log"))
        assert error.condition == "DISK_FULL" and "/state/app" in error.message
    for raised in (RuntimeError(java), OSError(errno.ENOSPC, "No space left on device", "/data/x")):
        assert spark_gone(raised, Path("/state/app/spark.log")).condition == "DISK_FULL"
    assert spark_gone(RuntimeError("gone"), Path("/state/app/spark.log")).condition == "SPARK_GONE"
