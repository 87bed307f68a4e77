"""From Spark's account of a failure back to the error that a worker raised."""

from __future__ import annotations

import re
from pathlib import Path

from hayase.core import errors
from hayase.core.errors import HayaseError, ProcessingError, StreamsStoppedError
from hayase.runtime.wire.step_hung import find_hung
from hayase.storage.disk_full import disk_full, is_out_of_space

_RAISED = re.compile(r"hayase\.core\.errors\.(\w+): \[([A-Z_]+)\] (.*)")
_PYTHON = re.compile(r"^(?:[A-Za-z_][\w.]*\.)?([A-Z]\w*(?:Error|Exception|Interrupt|Exit)): (.+)$", re.MULTILINE)
_NO_START = "Python worker failed to connect back"
_OF_A_TASK = re.compile(r"stage failure|\[PYTHON_EXCEPTION\]")
"""Spark names a stage, or gives the error of the worker alone."""
_EXECUTOR_LOST = re.compile(r"ExecutorLostFailure|FetchFailed|MetadataFetchFailed")
_NO_SPACE = re.compile(r"No space left on device|Disk quota exceeded")
_STATE_OF_QUERY = "=== Streaming Query ==="
_REASON_CHARACTERS = 300


def query_failure(text: str, spark_log: Path, *, planner_lost: bool = False) -> HayaseError:
    """The error of a query that failed, in one line.

    Args:
        text: Spark's account, with traces.
        spark_log: the file in which more of it is.
        planner_lost: whether the process that plans epochs is gone without having said why.
    """
    known = find_error(text) or find_hung(text)
    if known is not None:
        return known
    full = _NO_SPACE.search(text)
    if full is not None:  # Spark's own files, or Python's
        return _disk_full(full.group(), spark_log)
    if (
        planner_lost and _OF_A_TASK.search(text) is None
    ):  # Spark ends the planner with a query that failed for another reason
        return ProcessingError(
            "PLANNER_LOST",
            "the process that plans epochs died without a word; it may have been killed, perhaps for lack of memory. "
            f"Trying again is safe; Spark's account is in {spark_log}",
        )
    if _NO_START in text:
        return ProcessingError(
            "PROCESS_NOT_STARTED",
            "a Python process of Spark's did not start within 10 s: the machine has too much to do, or too little "
            f"memory. Trying again is safe; Spark's account is in {spark_log}",
        )
    if _EXECUTOR_LOST.search(text):
        return ProcessingError(
            "EXECUTOR_LOST",
            "Spark lost executors again and again while it ran one epoch: their machines went, or they were killed, "
            f"for lack of memory perhaps. Trying again is safe; Spark's account is in {spark_log}, and in the folder "
            "of its workers",
        )
    return ProcessingError(
        "SPARK_FAILED", f"the Spark query failed: {reason_of(text)}; Spark's account is in {spark_log}"
    )


def part_failure(text: str, condition: str, what: str, spark_log: Path) -> HayaseError:
    """The error of something of the user that Spark ran, in one line; that of a worker where there is one.

    Args:
        text: Spark's account, with traces, or the error itself.
        condition: of the error where nothing else fits.
        what: what failed, at the beginning of the line.
        spark_log: the file in which more of it is.
    """
    failure = query_failure(text, spark_log)
    if failure.condition != "SPARK_FAILED":
        return failure
    return ProcessingError(condition, f"{what} failed: {reason_of(text)}; Spark's account is in {spark_log}")


def start_failure(text: str, spark_log: Path) -> HayaseError:
    """The error of a query that could not even be started, in one line."""
    return find_error(text) or ProcessingError(
        "SPARK_FAILED", f"Spark did not start: {reason_of(text)}; Spark's account is in {spark_log}"
    )


def spark_gone(error: BaseException, spark_log: Path, end: str | None = None) -> HayaseError:
    """The error where Spark itself cannot be asked any more.

    Args:
        error: what PySpark raised.
        spark_log: the file in which more may be.
        end: how the JVM ended; `None` if it runs, so it was the session that was stopped, by the program.
    """
    if isinstance(error, HayaseError):
        return error
    if isinstance(error, OSError) and is_out_of_space(error.errno):
        return disk_full("What a run keeps beside its state", error.filename or spark_log.parent, error)
    full = _NO_SPACE.search(str(error))
    if full is not None:  # what Spark says when a query is to be started
        return _disk_full(full.group(), spark_log)
    if end is not None:
        return ProcessingError(
            "SPARK_DIED",
            f"Spark's JVM ended beneath the application ({end}). The system may have ended it for lack of memory; "
            f"what it said last is in {spark_log}. Start the application again, or have an uncaught exception handler "
            "answer REPLACE_THREAD: either goes on with the epoch that is open",
        )
    return StreamsStoppedError(
        "SPARK_GONE",
        f"the connection to Spark was lost ({one_line(str(error) or type(error).__name__)}): its session was stopped "
        f"by the program. Start the application again; what Spark said last is in {spark_log}",
    )


def _disk_full(said: str, spark_log: Path) -> HayaseError:
    return disk_full("Something that Spark, or a process of its, keeps", f"{spark_log.parent}, or /tmp", said)


def find_error(text: str) -> HayaseError | None:
    """The error named in a Python traceback inside the text; `None` if there is none of ours."""
    raised = _RAISED.search(text)
    if raised is None:
        return None
    cls = getattr(errors, raised.group(1), HayaseError)
    message, context = _split_context(raised.group(3).strip())
    error = cls(raised.group(2), message)
    assert isinstance(error, HayaseError)
    if isinstance(error, errors.TopologyError):
        error.line = context.pop("line", None)
    error.context = context
    return error


def _split_context(text: str) -> tuple[str, dict[str, str]]:
    """Undo `HayaseError.__str__`: the message, and `name value` pairs in parentheses at the end."""
    split = re.fullmatch(r"(.*) \(([a-z_]+ [^()]*)\)", text)
    if split is None:
        return text, {}
    pairs = (item.partition(" ") for item in split.group(2).split(", "))
    return split.group(1), {name: value for name, _, value in pairs}


def reason_of(text: str) -> str:
    """What a person can do something with: the last Python error, else what Spark says first."""
    before_state = text.partition(_STATE_OF_QUERY)[0]
    python = _PYTHON.findall(before_state)
    if python:
        name, message = python[-1]
        return one_line(f"{name}: {message}")
    lines = [line.strip() for line in before_state.splitlines() if line.strip() and not line.startswith("\tat ")]
    return one_line(" ".join(lines[:2]) or "Spark gives no reason")


def one_line(text: str) -> str:
    """A text in one line, cut where it is too long for that."""
    line = " ".join(text.split())
    return line if len(line) <= _REASON_CHARACTERS else f"{line[:_REASON_CHARACTERS]} …"
