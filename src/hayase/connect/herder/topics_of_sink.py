"""Which partitions a sink reads: of the topics that it names, or that its regular expression matches."""

from __future__ import annotations

import re

from hayase.connect.config.config_def import TypedConfig
from hayase.connect.contracts import SinkPartition
from hayase.connect.herder.environment import WorkerEnvironment


def sink_partitions(env: WorkerEnvironment, config: TypedConfig) -> list[SinkPartition]:
    """Partitions of the topics that exist, sorted; a topic that is made later is found later."""
    names = config.list("topics")
    pattern = config.string("topics.regex")
    if pattern:
        own = {
            env.config.string("config.storage.topic"),
            env.config.string("offset.storage.topic"),
            env.config.string("status.storage.topic"),
            config.string("errors.deadletterqueue.topic.name"),
        }
        compiled = re.compile(pattern)
        names = [topic for topic in env.log.topics() if compiled.fullmatch(topic) and topic not in own]
    infos = env.log.describe(names)
    return sorted(
        SinkPartition(info.name, info.topic_id, number) for info in infos.values() for number in range(info.partitions)
    )
