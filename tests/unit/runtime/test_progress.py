"""What a running query reports."""

from __future__ import annotations

from hayase.runtime.driver.progress import Progress


def test_a_trigger_that_had_nothing_to_do_is_no_epoch_and_no_error() -> None:
    progress = Progress()
    progress.take([{"batchId": 0, "durationMs": {}}, {"batchId": 0, "durationMs": {}, "observedMetrics": None}])
    assert (progress.epochs, progress.seen_batch) == (0, -1)
