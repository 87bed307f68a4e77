"""Records that sinks have written are deleted, whatever has failed before."""

from __future__ import annotations

import threading
from pathlib import Path

from hayase.connect.contracts import SinkPartition
from hayase.connect.purge import Positions, PurgeThread
from hayase.core.errors import StateError
from hayase.core.records import TopicPartition
from hayase.log.embedded.log import EmbeddedLog
from hayase.log.protocol import LogConfig, OutputBatch


def test_records_are_deleted_the_next_time_after_an_error_of_any_kind(tmp_path: Path) -> None:
    log = EmbeddedLog(LogConfig("embedded", str(tmp_path)))
    log.create_topic("orders", 1)
    place = TopicPartition("orders", 0)
    for value in (b"a", b"b", b"c"):
        log.writer().append([OutputBatch("orders", [None], [value], [0])])
    log.commit_group_offsets("sink", {place: 2})
    failures: list[Exception] = [StateError("NOT_READY", "the sink has no position yet"), KeyError("orders")]
    asked_again = threading.Semaphore(0)

    def positions() -> Positions:
        if failures:
            raise failures.pop()
        asked_again.release()
        return {"sink": {SinkPartition("orders", "", 0): 2}}

    thread = PurgeThread(lambda: log, lambda log: None, positions, interval_ms=1)
    for _ in range(2):  # when it is asked the second time, the first is done
        assert asked_again.acquire(timeout=60)
    thread.close()
    assert log.start_offsets([place]) == {place: 2}
    log.close()
