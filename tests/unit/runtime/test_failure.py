"""Finding the worker's own error in Spark's account."""

from __future__ import annotations

from hayase.core.errors import SerializationError
from hayase.runtime.failure import find_error


def test_the_error_of_a_worker_comes_back_with_type_condition_and_context() -> None:
    raised = SerializationError("DESERIALIZATION_FAILED", "no JSON (really); mend it", topic="orders", offset=7)
    text = f"Traceback (most recent call last):\n  File x\nhayase.core.errors.SerializationError: {raised}\n SQLSTATE: 38000"
    found = find_error(text)
    assert type(found) is SerializationError
    assert (found.condition, found.message) == ("DESERIALIZATION_FAILED", "no JSON (really); mend it")
    assert dict(found.context) == {"topic": "orders", "offset": "7"}


def test_an_error_that_is_not_ours_is_not_invented() -> None:
    assert find_error("java.lang.OutOfMemoryError: Java heap space") is None
