"""What a slot says of a topology that fails in it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from hayase.core.errors import HayaseError, ProcessingError, SerializationError
from hayase.runtime.wire.failure import find_error, reason_of
from hayase.runtime.wire.shared_options import SharedOptions
from hayase.runtime.wire.slot_messages import TopologyRequest
from hayase.runtime.worker.slot_client import SlotWorker


@pytest.fixture
def worker() -> Iterator[SlotWorker]:
    made = SlotWorker(SharedOptions("", 1, 10.0, "", "", "", "", "WARNING", "shop", "", False, 60_000))
    yield made
    made.close()


def _told(worker: SlotWorker, monkeypatch: pytest.MonkeyPatch, raise_it: Any) -> str:
    monkeypatch.setattr(worker, "_prepare", raise_it)
    (result,) = worker.run([TopologyRequest("shop-orders", {}, b"", 0, 0, [], [])])
    return result.error


def test_an_error_is_told_and_not_its_cause(worker: SlotWorker, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        try:
            raise SerializationError("VALUE_NOT_DESERIALIZABLE", "JSON is malformed")
        except HayaseError as cause:
            raise ProcessingError(
                "DESERIALIZATION_FAILED", "JSON is malformed; fix it", topic="in", offset=7
            ) from cause

    found = find_error(_told(worker, monkeypatch, fail))
    assert type(found) is ProcessingError and found.condition == "DESERIALIZATION_FAILED"
    assert dict(found.context) == {"topic": "in", "offset": "7"}


def test_an_error_that_is_not_ours_is_told_in_one_line(worker: SlotWorker, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError("division by zero")

    said = _told(worker, monkeypatch, fail)
    assert find_error(said) is None and reason_of(said) == "ZeroDivisionError: division by zero"
