"""The herder: several workers, failures, what comes after them."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.unit.connect.connectors import NumberSource, NumberTask

from hayase.connect.config.references import ReferencePolicy
from hayase.connect.config.worker_config import WorkerConfig
from hayase.connect.contracts import Props, SourceTask
from hayase.connect.herder.environment import WorkerEnvironment
from hayase.connect.herder.herder import Herder
from hayase.connect.plugins import Plugins
from hayase.core.records import TopicPartition
from hayase.core.time import SystemClock
from hayase.log.protocol import Log, LogConfig

pytestmark = pytest.mark.long


def herder(log: Log, worker_id: str = "a") -> Herder:
    plugins = Plugins(entry_points=False)
    plugins.add_class(NumberSource)
    config = WorkerConfig({"group.id": "w", "value.converter": "StringConverter", "key.converter": "StringConverter"})
    config_of_log = LogConfig("embedded", "")
    return Herder(WorkerEnvironment(config, plugins, ReferencePolicy(), config_of_log, log, worker_id, SystemClock()))


def states(of: Herder, name: str) -> tuple[str, list[str]]:
    runner = of.runner(name)
    return str(runner.status.state), [str(status.state) for _, status in sorted(runner.task_statuses.items())]


def wait(found: Callable[[], object], wanted: object) -> None:
    deadline = time.monotonic() + 30
    while (last := found()) != wanted:
        assert time.monotonic() < deadline, last
        time.sleep(0.02)


def lines(file: Path) -> dict[str, str]:
    return {"name": "lines", "connector.class": "FileStreamSource", "file": str(file), "topic": "lines"}


def test_of_two_workers_with_the_same_connector_one_publishes_and_nothing_comes_twice(
    log: Log, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "lines.txt"
    file.write_text("one\ntwo\n")
    first = herder(log, "a")
    first.start()
    first.create(lines(file))
    wait(lambda: first.topics("lines"), {"lines": {"topics": ["lines"]}})
    second = herder(log, "b")
    second.start()
    wait(lambda: states(second, "lines"), ("RUNNING", ["RUNNING"]))
    with file.open("a") as more:
        more.write("three\n")
    wait(lambda: states(first, "lines"), ("RUNNING", ["FAILED"]))
    where = TopicPartition("lines", 0)
    wait(lambda: log.end_offsets([where])[where], 3)
    first.close()
    second.close()
    values = [value for batch in log.reader().fetch(where, 0, 3) for value in batch.values]
    assert values == [b"one", b"two", b"three"]
    (said,) = [record for record in caplog.records if "SUPERSEDED" in record.getMessage()]
    assert said.exc_info in (None, False)  # one line, no stack trace


def test_a_task_that_failed_is_restarted_by_a_request_and_by_a_new_configuration(log: Log, tmp_path: Path) -> None:
    file = tmp_path / "lines.txt"
    file.write_text("one\n")
    running = herder(log)
    running.start()
    running.create(lines(file))
    wait(lambda: running.topics("lines"), {"lines": {"topics": ["lines"]}})
    running.set_target("lines", running.runner("lines").stored.target)
    file.write_text("")
    running.restart("lines", include_tasks=True, only_failed=False)
    wait(lambda: states(running, "lines"), ("RUNNING", ["FAILED"]))
    (task,) = running.status("lines")["tasks"]  # type: ignore[misc] # a list
    assert "it was replaced" in task["trace"]
    file.write_text("one\ntwo\n")
    running.restart("lines", include_tasks=True, only_failed=True)
    wait(lambda: states(running, "lines"), ("RUNNING", ["RUNNING"]))
    where = TopicPartition("lines", 0)
    wait(lambda: log.end_offsets([where])[where], 2)
    running.close()


def test_a_task_that_does_not_start_says_why_though_it_cannot_be_stopped_either(log: Log) -> None:
    class Unready(NumberTask):
        def start(self, props: Props) -> None:
            raise FileNotFoundError("the ledger is away")

        def stop(self) -> None:
            raise AttributeError("there is nothing to close")

    class UnreadySource(NumberSource):
        def task_class(self) -> type[SourceTask]:
            return Unready

    running = herder(log)
    name = running.env.plugins.add_class(UnreadySource)
    running.start()
    running.create({"name": "unready", "connector.class": name, "count": "1"})
    wait(lambda: states(running, "unready"), ("RUNNING", ["FAILED"]))
    (task,) = running.status("unready")["tasks"]  # type: ignore[misc] # a list
    assert "the ledger is away" in task["trace"].splitlines()[-1]
    running.close()


def test_a_failure_is_not_shown_any_more_once_there_is_another_configuration(log: Log) -> None:
    class Unready(NumberTask):
        def start(self, props: Props) -> None:
            if props["count"] == "0":
                raise ValueError("there is nothing to count")
            super().start(props)

    class UnreadySource(NumberSource):
        def task_class(self) -> type[SourceTask]:
            return Unready

    running = herder(log)
    props = {"name": "unready", "connector.class": running.env.plugins.add_class(UnreadySource), "topic": "numbers"}
    running.start()
    running.create(props | {"count": "0"})
    wait(lambda: states(running, "unready"), ("RUNNING", ["FAILED"]))
    running.put_config("unready", props | {"count": "2"})
    assert states(running, "unready") != ("RUNNING", ["FAILED"])
    wait(lambda: states(running, "unready"), ("RUNNING", ["RUNNING"]))
    running.close()


def test_a_connector_that_does_not_start_says_why_though_it_cannot_be_stopped_either(log: Log) -> None:
    class Unready(NumberSource):
        def start(self, props: Props) -> None:
            raise FileNotFoundError("the ledger is away")

        def stop(self) -> None:
            raise AttributeError("there is nothing to close")

    running = herder(log)
    name = running.env.plugins.add_class(Unready)
    running.start()
    running.create({"name": "unready", "connector.class": name, "count": "1"})
    wait(lambda: states(running, "unready"), ("FAILED", []))
    assert "the ledger is away" in (running.runner("unready").status.trace or "").splitlines()[-1]
    running.close()


def test_a_connector_with_more_tasks_than_allowed_fails_with_the_reason(log: Log) -> None:
    class Greedy(NumberSource):
        def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
            return [dict(self.props)] * (max_tasks + 1)

    running = herder(log)
    name = running.env.plugins.add_class(Greedy)
    running.start()
    running.create({"name": "greedy", "connector.class": name, "count": "1"})
    wait(lambda: states(running, "greedy"), ("FAILED", []))
    assert "has generated 2 tasks" in (running.runner("greedy").status.trace or "")
    running.close()
