"""Committing a group's offsets with a consumer that never joins it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import confluent_kafka
import pytest

from hayase.core.records import TopicPartition
from hayase.log.kafka import group_member
from hayase.log.protocol import LogConfig

_ANSWER_S = 0.004


class SlowConsumer:
    """Answers commits after some time; a poll serves the answer, and goes on until its own time is over."""

    def __init__(self, on_commit: Callable[..., None]) -> None:
        self.now_s = 0.0
        self._on_commit = on_commit
        self._asked: tuple[float, Sequence[confluent_kafka.TopicPartition]] | None = None

    def commit(self, offsets: Sequence[confluent_kafka.TopicPartition], asynchronous: bool) -> None:
        assert asynchronous
        self._asked = self.now_s + _ANSWER_S, offsets

    def poll(self, timeout_s: float) -> None:
        self.now_s += timeout_s
        if self._asked is not None and self._asked[0] <= self.now_s:
            self._on_commit(None, self._asked[1])
            self._asked = None


def test_a_commit_returns_soon_after_its_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """An epoch is not complete before it."""
    made: list[SlowConsumer] = []

    def slow_consumer(config: LogConfig, on_commit: Callable[..., None], group_id: str) -> SlowConsumer:
        made.append(SlowConsumer(on_commit))
        return made[0]

    monkeypatch.setattr(group_member, "open_consumer", slow_consumer)
    member = group_member.GroupMember(LogConfig("kafka", "nowhere:1", {}), "group")
    member.commit({TopicPartition("in", 0): 7}, timeout_s=5)
    assert made[0].now_s < 2 * _ANSWER_S
