"""The topics of the log, as statements see them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from hayase.core.errors import LogError, UnknownTopicError
from hayase.log.protocol import Log
from hayase.sql.errors import StatementError
from hayase.sql.statements.results import PersistentQuery
from hayase.sql.statements.topics import TopicAdmin

_CONNECTOR_CONFIGS = re.compile(r"_hayase-sql-.+_connect-configs")


class LogTopics:
    """Creates and deletes topics of a log.

    Args:
        log: of the topics.
        hidden: patterns of topics that are not listed.
        readonly: patterns of topics that statements may not create or delete.
        secret: topics with the configurations of connectors, beside those of servers like this one.
    """

    def __init__(
        self, log: Log, hidden: Sequence[str] = (), readonly: Sequence[str] = (), secret: Sequence[str] = ()
    ) -> None:
        self._log = log
        self._secret = [_CONNECTOR_CONFIGS, *(re.compile(re.escape(name)) for name in secret)]
        self._hidden = [re.compile(pattern) for pattern in hidden]
        self._readonly = [re.compile(pattern) for pattern in readonly]

    def names(self) -> Collection[str]:
        """See `TopicAdmin.names`; without hidden ones."""
        return [name for name in self.all_names() if not _matches(self._hidden, name)]

    def all_names(self) -> Collection[str]:
        """The names of all topics."""
        return self._log.topics()

    def partitions(self, topic: str) -> int | None:
        """See `TopicAdmin.partitions`."""
        info = self._log.describe([topic]).get(topic)
        return None if info is None else info.partitions

    def replicas(self, topic: str) -> int:
        """See `TopicAdmin.replicas`. The log does not tell; what it makes has what its cluster is set to."""
        return 1

    def create(self, topic: str, partitions: int, replicas: int) -> None:
        """See `TopicAdmin.create`; a topic that is there stays as it is."""
        if self.partitions(topic) is not None:
            return
        try:
            self._log.create_topic(topic, partitions)
        except LogError as error:
            if error.condition == "INVALID_PARTITIONS":
                raise StatementError(error.condition, error.message) from error
            if error.condition != "TOPIC_EXISTS":
                raise

    def delete(self, topic: str) -> None:
        """See `TopicAdmin.delete`; a topic that is not there is deleted already."""
        try:
            self._log.delete_topic(topic)
        except UnknownTopicError:
            return

    def topic_id(self, topic: str) -> str | None:
        """What tells a topic from one of the same name that was made later; `None`: there is none."""
        info = self._log.describe([topic]).get(topic)
        return None if info is None else info.topic_id

    def check_writable(self, topic: str, setting: str = "") -> None:
        """Refuse statements that would write a read-only topic; raises StatementError.

        Args:
            topic: that would be written.
            setting: that names it, where one does.
        """
        if _matches(self._readonly, topic):
            raise StatementError(
                "READ_ONLY_TOPIC",
                f"Cannot write to topic {topic}{f' ({setting})' if setting else ''}: it is read-only, as "
                "ksql.readonly.topics says",
            )

    def check_readable(self, topic: str) -> None:
        """Refuse statements that would show a topic in which passwords are; raises StatementError."""
        if _matches(self._secret, topic):
            raise StatementError(
                "SECRET_TOPIC",
                f"Topic {topic} cannot be read: it has the configurations of connectors, with their passwords. "
                "SHOW CONNECTORS and DESCRIBE CONNECTOR show them without passwords",
            )


def topic_is_gone(topic: object) -> StatementError:
    """The error of a statement whose stream or table has no topic any more."""
    return StatementError(
        "UNKNOWN_TOPIC",
        f"Topic '{topic}' does not exist any more, and this server has not deleted it. Make the topic again, with the "
        "partitions that it had; or DROP the stream or table that has it, and CREATE it again",
    )


def check_topics_there(queries: Iterable[PersistentQuery], topics: TopicAdmin, created: Collection[str] = ()) -> None:
    """Refuse queries that read or write a topic that is gone; raises StatementError.

    Args:
        queries: that are to start.
        topics: those that there are.
        created: what the statement creates.
    """
    for query in queries:
        for topic in (*query.source_topics, query.sink_topic):
            if topic is not None and topic not in created and topics.partitions(topic) is None:
                raise topic_is_gone(topic)


def _matches(patterns: Sequence[re.Pattern[str]], name: str) -> bool:
    return any(pattern.fullmatch(name) for pattern in patterns)


@dataclass
class PlannedTopics:
    """Topics with changes that are not carried out: for statements that are only checked.

    Attributes:
        there: the topics that are there.
    """

    there: TopicAdmin
    created: dict[str, tuple[int, int]] = field(default_factory=dict)
    deleted: set[str] = field(default_factory=set)

    def names(self) -> Collection[str]:
        """See `TopicAdmin.names`."""
        return {*self.there.names(), *self.created} - self.deleted

    def partitions(self, topic: str) -> int | None:
        """See `TopicAdmin.partitions`."""
        if topic in self.created:
            return self.created[topic][0]
        return None if topic in self.deleted else self.there.partitions(topic)

    def replicas(self, topic: str) -> int:
        """See `TopicAdmin.replicas`."""
        return self.created[topic][1] if topic in self.created else self.there.replicas(topic)

    def create(self, topic: str, partitions: int, replicas: int) -> None:
        """See `TopicAdmin.create`."""
        if self.partitions(topic) is None:
            self.created[topic] = partitions, replicas
            self.deleted.discard(topic)

    def delete(self, topic: str) -> None:
        """See `TopicAdmin.delete`."""
        self.created.pop(topic, None)
        self.deleted.add(topic)


@dataclass
class NotedTopics:
    """Topics that remember what a statement asked about them, so that a replay gets the same answers.

    Attributes:
        there: the topics that are asked.
        noted: partitions and replicas by topic.
    """

    there: TopicAdmin
    noted: dict[str, tuple[int | None, int]] = field(default_factory=dict)

    def names(self) -> Collection[str]:
        """See `TopicAdmin.names`."""
        return self.there.names()

    def partitions(self, topic: str) -> int | None:
        """See `TopicAdmin.partitions`."""
        return self._note(topic)[0]

    def replicas(self, topic: str) -> int:
        """See `TopicAdmin.replicas`."""
        return self._note(topic)[1]

    def create(self, topic: str, partitions: int, replicas: int) -> None:
        """See `TopicAdmin.create`."""
        self.there.create(topic, partitions, replicas)

    def delete(self, topic: str) -> None:
        """See `TopicAdmin.delete`."""
        self.there.delete(topic)

    def _note(self, topic: str) -> tuple[int | None, int]:
        if topic not in self.noted:
            partitions = self.there.partitions(topic)
            self.noted[topic] = partitions, 1 if partitions is None else self.there.replicas(topic)
        return self.noted[topic]


@dataclass(frozen=True)
class ReplayedTopics:
    """Topics as an earlier execution saw them; nothing is asked, created or deleted."""

    noted: Mapping[str, tuple[int | None, int]]

    def names(self) -> Collection[str]:
        """See `TopicAdmin.names`."""
        return [topic for topic, (partitions, _) in self.noted.items() if partitions is not None]

    def partitions(self, topic: str) -> int | None:
        """See `TopicAdmin.partitions`."""
        return self.noted.get(topic, (None, 1))[0]

    def replicas(self, topic: str) -> int:
        """See `TopicAdmin.replicas`."""
        return self.noted.get(topic, (None, 1))[1]

    def create(self, topic: str, partitions: int, replicas: int) -> None:
        """Nothing: effects are carried out once."""

    def delete(self, topic: str) -> None:
        """Nothing: effects are carried out once."""
