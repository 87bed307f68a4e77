"""Requests that come at the same time, and what the topics of a worker hold of secrets."""

from __future__ import annotations

import dataclasses
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from tests.unit.connect.connectors import NumberSource, NumberTask
from tests.unit.connect.test_herder import herder, lines, states, wait

from hayase.connect.config.references import ReferencePolicy
from hayase.connect.contracts import SourceTask
from hayase.connect.herder.herder import Herder
from hayase.connect.herder.states import BadRequestError, NotFoundError
from hayase.connect.model import Polled
from hayase.core.records import TopicPartition
from hayase.log.protocol import Log

pytestmark = pytest.mark.long


class HeldTask(NumberTask):
    """Its polls do not return before they are let go."""

    entered = threading.Event()
    let_go = threading.Event()

    def poll(self) -> Polled | None:
        self.entered.set()
        self.let_go.wait(30)
        return super().poll()


class HeldSource(NumberSource):
    def task_class(self) -> type[SourceTask]:
        return HeldTask


@pytest.fixture
def started(log: Log) -> Iterator[Herder]:
    opened = herder(log)
    opened.start()
    yield opened
    opened.close()


def meanwhile(of: Herder, monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Act once, when the next configuration was checked and is not kept yet."""
    check = of._check
    acted: list[object] = []

    def checked(props: Mapping[str, str]) -> None:
        check(props)
        if not acted:
            acted.append(None)
            act()

    monkeypatch.setattr(of, "_check", checked)


def test_a_connector_that_is_made_again_while_its_predecessor_ends_is_not_fenced_by_it(started: Herder) -> None:
    name = started.env.plugins.add_class(HeldSource)
    props = {"name": "held", "connector.class": name, "count": "4", "topic": "numbers"}
    started.create(props)
    assert HeldTask.entered.wait(30)
    deletion = threading.Thread(target=started.delete, args=["held"])
    deletion.start()
    wait(started.connectors, [])
    again = threading.Thread(target=started.create, args=[props])
    again.start()
    again.join(0.5)
    HeldTask.let_go.set()
    for thread in (deletion, again):
        thread.join(30)
    wait(lambda: started.topics("held"), {"held": {"topics": ["numbers"]}})
    assert states(started, "held") == ("RUNNING", ["RUNNING"])


def test_a_configuration_of_a_connector_that_is_deleted_meanwhile_is_not_kept(
    log: Log, started: Herder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started.create(lines(tmp_path / "file"))
    meanwhile(started, monkeypatch, lambda: started.delete("lines"))
    with pytest.raises(NotFoundError):
        started.patch_config("lines", {"batch.size": "3"})
    later = herder(log, "b")
    later.start()
    assert later.connectors() == []
    later.close()


def test_of_two_patches_at_the_same_time_both_count(
    started: Herder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started.create(lines(tmp_path / "file"))
    meanwhile(started, monkeypatch, lambda: started.patch_config("lines", {"b": "2"}))
    started.patch_config("lines", {"a": "1"})
    assert started.config("lines").items() >= {"a": "1", "b": "2"}.items()


def test_a_name_that_is_too_long_for_names_of_tasks_is_refused(started: Herder, tmp_path: Path) -> None:
    with pytest.raises(BadRequestError, match="up to 240 are allowed"):
        started.create({**lines(tmp_path / "file"), "name": "ä" * 121})
    started.create({**lines(tmp_path / "file"), "name": "ä" * 120})
    wait(lambda: states(started, "ä" * 120), ("RUNNING", ["RUNNING"]))


def test_secrets_that_are_referred_to_are_in_no_topic_and_in_no_answer(
    log: Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET", "open sesame")
    opened = herder(log)
    policy = ReferencePolicy(env_pattern=re.compile("SECRET"))
    opened = Herder(dataclasses.replace(opened.env, references=policy))
    opened.start()
    opened.create({**lines(tmp_path / "file"), "some.password": "${env:SECRET}", "some.url": "u:${env:SECRET}@host"})
    wait(lambda: states(opened, "lines"), ("RUNNING", ["RUNNING"]))
    assert "open sesame" not in str(opened.tasks("lines"))
    shown = opened.tasks("lines")[0]["config"]
    assert isinstance(shown, dict)
    assert shown["some.url"] == "u:${env:SECRET}@host"
    opened.close()
    for topic in ("connect-configs", "connect-status"):
        partitions = [TopicPartition(topic, number) for number in range(log.describe([topic])[topic].partitions)]
        for partition, end in log.end_offsets(partitions).items():
            for batch in log.reader().fetch(partition, 0, end):
                assert b"open sesame" not in b"".join(value or b"" for value in batch.values)
