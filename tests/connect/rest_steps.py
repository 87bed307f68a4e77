"""Requests to the REST interface of a worker of connectors, one after the other, and their answers as they compare."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2

_WAIT_S = 240.0
_LOOK_S = 0.1
_OF_THE_WORKER = {"documentation", "worker_id", "version", "commit", "kafka_cluster_id", "trace"}
"""Fields whose values say nothing about the interface."""


@dataclass(frozen=True, slots=True)
class Step:
    """A request.

    Attributes:
        method: of HTTP.
        path: with its query.
        body: JSON; `None`: none.
        until: before it, wait until this connector has these states: its own, and those of its tasks.
        offsets_of: before it, wait until this connector has offsets.
    """

    method: str
    path: str
    body: object = None
    until: tuple[str, str, tuple[str, ...]] | None = None
    offsets_of: str | None = None


def steps(folder: Path) -> Iterator[Step]:
    """All requests.

    Args:
        folder: of the files that connectors read and write; it has `in.txt`.
    """
    made = {"topic.creation.default.partitions": "1", "topic.creation.default.replication.factor": "1"}
    source = {"connector.class": "FileStreamSource", "file": str(folder / "in.txt"), "topic": "lines", **made}
    sink = {"connector.class": "FileStreamSink", "file": str(folder / "out.txt"), "topics": "lines"}
    running, paused = ("RUNNING", ("RUNNING",)), ("PAUSED", ("PAUSED",))
    yield Step("GET", "/")
    yield Step("GET", "/connectors")
    yield Step("GET", "/connectors/nope")
    yield Step("GET", "/connectors/nope/status")
    yield Step("GET", "/connectors/nope/config")
    yield Step("GET", "/connectors/nope/tasks")
    yield Step("GET", "/connectors/nope/topics")
    yield Step("GET", "/connectors/nope/offsets")
    yield Step("DELETE", "/connectors/nope")
    yield Step("PUT", "/connectors/nope/pause")
    yield Step("PUT", "/connectors/nope/resume")
    yield Step("PUT", "/connectors/nope/stop")
    yield Step("POST", "/connectors/nope/restart")
    yield Step("POST", "/connectors/nope/tasks/0/restart")
    yield Step("GET", "/nothing/here")
    yield Step("POST", "/connectors", {"name": "a", "config": {}})
    yield Step("POST", "/connectors", {"config": {**source}})
    yield Step("POST", "/connectors", {"name": "a", "config": {**source, "name": "b"}})
    yield Step("POST", "/connectors", {"name": "a", "config": {**source, "tasks.max": "none"}})
    yield Step("POST", "/connectors", {"name": "a", "config": {"connector.class": "FileStreamSource"}})
    yield Step("POST", "/connectors", {"name": "a", "config": source, "initial_state": "SLEEPING"})
    yield Step("POST", "/connectors", {"name": "source", "config": source})
    yield Step("GET", "/connectors/source/status", until=("source", *running))
    yield Step("GET", "/connectors/source")
    yield Step("GET", "/connectors/source/config")
    yield Step("GET", "/connectors/source/tasks")
    yield Step("GET", "/connectors/source/tasks/0/status")
    yield Step("GET", "/connectors/source/tasks/7/status")
    yield Step("POST", "/connectors", {"name": "source", "config": source})
    yield Step("GET", "/connectors?expand=status")
    yield Step("GET", "/connectors?expand=info")
    yield Step("GET", "/connectors?expand=status&expand=info")
    yield Step("GET", "/connectors?expand=other")
    yield Step("PUT", "/connectors/source/config", {**source, "batch.size": "100"})
    yield Step("PUT", "/connectors/source/config", {**source, "name": "other"})
    yield Step("PATCH", "/connectors/source/config", {"batch.size": None}, ("source", *running))
    yield Step("PATCH", "/connectors/nope/config", {"batch.size": "5"})
    yield Step("PUT", "/connectors/source/pause", until=("source", *running))
    yield Step("GET", "/connectors/source/status", until=("source", *paused))
    yield Step("PUT", "/connectors/source/resume")
    yield Step("GET", "/connectors/source/status", until=("source", *running))
    yield Step("POST", "/connectors/source/restart")
    yield Step("POST", "/connectors/source/restart?onlyFailed=true&includeTasks=true", until=("source", *running))
    yield Step("POST", "/connectors/source/tasks/0/restart", until=("source", *running))
    yield Step("POST", "/connectors/source/tasks/7/restart")
    yield Step("PATCH", "/connectors/source/offsets", {"offsets": []})
    yield Step("DELETE", "/connectors/source/offsets", until=("source", *running))
    yield Step("PUT", "/connectors/sink/config", {**sink, "tasks.max": 1})
    yield Step("GET", "/connectors/sink/status", until=("sink", *running))
    yield Step("GET", "/connectors/sink")
    yield Step("GET", "/connectors/source/offsets", offsets_of="source")
    yield Step("PUT", "/connectors/source/stop")
    yield Step("GET", "/connectors/source/status", until=("source", "STOPPED", ()))
    yield Step("GET", "/connectors/source/tasks")
    yield Step("GET", "/connectors/source/offsets")
    where = {"partition": {"filename": str(folder / "in.txt")}, "offset": {"position": 4}}
    yield Step("PATCH", "/connectors/source/offsets", {"offsets": [where]})
    yield Step("GET", "/connectors/source/offsets")
    yield Step("PATCH", "/connectors/source/offsets", {"offsets": [{"partition": {"filename": "x"}}]})
    yield Step("PATCH", "/connectors/source/offsets", {})
    yield Step("DELETE", "/connectors/source/offsets")
    yield Step("GET", "/connectors/source/offsets")
    yield Step("PUT", "/connectors/source/topics/reset")
    yield Step("GET", "/connectors/source/topics")
    yield Step("POST", "/connectors", {"name": "held", "config": {**source, "topic": "t"}, "initial_state": "STOPPED"})
    yield Step("GET", "/connectors/held/status", until=("held", "STOPPED", ()))
    yield Step("PUT", "/connector-plugins/FileStreamSource/config/validate", {"connector.class": "FileStreamSink"})
    yield Step("PUT", "/connector-plugins/Nope/config/validate", {"connector.class": "Nope"})
    yield Step("GET", "/connector-plugins/Nope/config")
    yield Step("GET", "/connector-plugins/FileStreamSource/config")
    yield Step("PUT", "/connector-plugins/FileStreamSource/config/validate", {**source, "name": "v", "batch.size": "x"})
    yield Step("PUT", "/admin/loggers/some.logger", {"level": "LOUD"})
    yield Step("PUT", "/admin/loggers/some.logger", {})
    yield Step("DELETE", "/connectors/sink")
    yield Step("DELETE", "/connectors/held")
    yield Step("DELETE", "/connectors/source")
    yield Step("GET", "/connectors")


def answers(client: httpx2.Client, folder: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Carry out all requests; what each was, and how it was answered, as far as answers compare."""
    for step in steps(folder):
        if step.until is not None:
            _wait(client, *step.until)
        if step.offsets_of is not None:
            _wait_for_offsets(client, step.offsets_of)
        body = {} if step.body is None else {"json": step.body}
        answer = client.request(step.method, step.path, **body)
        for _ in range(100):
            if answer.status_code != 409 or "rebalance" not in answer.text:
                break
            time.sleep(_LOOK_S)  # Kafka Connect's own worker asks to try again
            answer = client.request(step.method, step.path, **body)
        content = answer.json() if answer.content else None
        said = f"{step.method} {step.path}" + ("" if step.body is None else f" {step.body}")
        yield said.replace(str(folder), "FOLDER"), {"status": answer.status_code, "body": _comparable(content, folder)}


def _wait(client: httpx2.Client, name: str, state: str, tasks: tuple[str, ...]) -> None:
    deadline = time.monotonic() + _WAIT_S
    while True:
        found = client.get(f"/connectors/{name}/status").json()
        if "connector" in found:
            states = found["connector"]["state"], tuple(task["state"] for task in found["tasks"])
            if states == (state, tasks):
                return
        assert time.monotonic() < deadline, found
        time.sleep(_LOOK_S)


def _wait_for_offsets(client: httpx2.Client, name: str) -> None:
    deadline = time.monotonic() + _WAIT_S
    while not client.get(f"/connectors/{name}/offsets").json().get("offsets"):
        assert time.monotonic() < deadline, f"{name} has no offsets"
        time.sleep(_LOOK_S)


def _comparable(value: object, folder: Path) -> object:
    if isinstance(value, Mapping):
        return {
            key: key.upper() if key in _OF_THE_WORKER else _comparable(each, folder)
            for key, each in sorted(value.items())
        }
    if isinstance(value, list):
        return [_comparable(each, folder) for each in value]
    return value.replace(str(folder), "FOLDER") if isinstance(value, str) else value
