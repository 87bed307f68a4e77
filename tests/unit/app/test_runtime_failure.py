"""A shared runtime whose Spark query has failed: what `run_to_end` says."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.unit.app.query_in_process import QueryInProcess, embedded_place, runtime_in

from hayase import Consumed, Serdes, State, StreamsBuilder
from hayase.core.errors import ProcessingError
from hayase.runtime.driver import shared_query

CLOSE_S = 0.5


class FailingQuery(QueryInProcess):
    """Fails when it has a topology, before anything was read; its end takes a while."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._has_one = threading.Event()

    def list_topology(self, application_id: str, options: Mapping[str, str], **how: Any) -> int:
        number = super().list_topology(application_id, options, **how)
        self._has_one.set()
        return number

    def _run_jobs(self) -> None:
        self._has_one.wait()
        self.error = ProcessingError("QUERY_FAILED", "a task was tried too often")

    def close(self) -> None:
        time.sleep(CLOSE_S)
        super().close()


@pytest.mark.long
def test_a_run_to_the_end_whose_query_failed_raises_the_error_of_the_query(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_query, "SharedQuery", FailingQuery)
    text = Serdes.string()
    with embedded_place(tmp_path, "numbers", "copies") as place:
        builder = StreamsBuilder()
        builder.stream("numbers", Consumed.with_(text, text)).to("copies")
        runtime = runtime_in(place)
        runtime.add_topology("copy", builder.build())
        with pytest.raises(ProcessingError, match="a task was tried too often"):
            runtime.run_to_end()
    assert runtime.state is State.ERROR
