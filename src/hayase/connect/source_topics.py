"""Topics that source connectors write to, made when the first record comes (`topic.creation.*`)."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from hayase.connect.config.config_def import TypedConfig
from hayase.connect.config.connector_config import DEFAULT_GROUP, TOPIC_CREATION_PREFIX, topic_creation_keys
from hayase.connect.offsets import ensure_topic
from hayase.log.protocol import Log

_LOG = logging.getLogger(__name__)
_NO_LIMIT = 2**31 - 1
_OWN = ("include", "exclude", "replication.factor", "partitions")


@dataclass(frozen=True, slots=True)
class TopicGroup:
    """Settings of topics that match.

    Attributes:
        include: patterns of names, of which one must match.
        exclude: patterns of names, of which none may.
        partitions: how many; `None`: one.
        replication_factor: `None`: as the cluster says.
        config: other settings of the topic.
    """

    include: tuple[re.Pattern[str], ...] = (re.compile(".*"),)
    exclude: tuple[re.Pattern[str], ...] = ()
    partitions: int | None = None
    replication_factor: int | None = None
    config: Mapping[str, str] = field(default_factory=dict)

    def matches(self, topic: str) -> bool:
        """Whether a topic belongs to the group."""
        return any(each.fullmatch(topic) for each in self.include) and not any(
            each.fullmatch(topic) for each in self.exclude
        )


def topic_groups(props: Mapping[str, str], groups: list[str]) -> list[TopicGroup]:
    """The groups of a connector's configuration, the default one last."""
    names = [*groups, DEFAULT_GROUP] if has_topic_creation(props) else groups
    return [_group(props, name) for name in names]


def has_topic_creation(props: Mapping[str, str]) -> bool:
    """Whether a configuration says how topics are made."""
    return any(name.startswith(f"{TOPIC_CREATION_PREFIX}{DEFAULT_GROUP}.") for name in props)


def _group(props: Mapping[str, str], name: str) -> TopicGroup:
    prefix = f"{TOPIC_CREATION_PREFIX}{name}."
    config = TypedConfig(topic_creation_keys(name), props)
    patterns = {
        each: tuple(map(re.compile, config.list(prefix + each))) if name != DEFAULT_GROUP else ()
        for each in ("include", "exclude")
    }
    return TopicGroup(
        patterns["include"] if name != DEFAULT_GROUP else (re.compile(".*"),),
        patterns["exclude"],
        _given(config[prefix + "partitions"]),
        _given(config[prefix + "replication.factor"]),
        {key: str(value) for key, value in config.with_prefix(prefix).items() if key not in _OWN},
    )


def _given(value: object) -> int | None:
    return value if isinstance(value, int) and value != -1 else None


class SourceTopics:
    """Makes topics that do not exist before they are written to.

    Args:
        log: where.
        groups: how; a topic that matches none has one partition and the log's defaults.
    """

    def __init__(self, log: Log, groups: list[TopicGroup]) -> None:
        self._log = log
        self._groups = groups
        self._known: set[str] = set()
        self._limits: dict[str, int] = {}

    def ensure(self, topics: list[str]) -> None:
        """Make those that are missing."""
        for topic in dict.fromkeys(topics):
            if topic in self._known:
                continue
            group = next((each for each in self._groups if each.matches(topic)), TopicGroup())
            if not self._log.describe([topic]):
                ensure_topic(self._log, topic, group.partitions or 1, group.config, group.replication_factor)
                _LOG.info("made the topic %s with %d partitions", topic, group.partitions or 1)
            self._known.add(topic)

    def limit(self, topic: str) -> int:
        """How large a record of a topic may be (`max.message.bytes`); makes the topic if it does not exist."""
        if topic not in self._limits:
            self.ensure([topic])
            self._limits[topic] = int(self._log.topic_config(topic).get("max.message.bytes", _NO_LIMIT))
        return self._limits[topic]

    def forget(self) -> None:
        """Look again whether topics exist: one was deleted."""
        self._known.clear()
        self._limits.clear()
