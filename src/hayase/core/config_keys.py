"""Keys of Kafka Streams that are accepted and have no effect here, each with the reason."""

from __future__ import annotations

_ASSIGNOR = "Spark places tasks; there is no consumer group whose members are assigned"
_SHUFFLE = "repartitions are Spark shuffles inside an epoch, not topics"
_STORE = "stores are LMDB environments; there is no other backend to tune"
_METRICS = "there is no JMX; see metrics.port, and StreamsApp.metrics()"
_JAVA = "names a Java class"
_POLL = "the worker that processes a range fetches it; there is no polling loop"

WITHOUT_EFFECT: dict[str, str] = {
    "application.server": (
        "stores are read on the machine where they are; there is nothing yet that answers for another one"
    ),
    "acceptable.recovery.lag": _ASSIGNOR,
    "allow.os.group.write.access": "files.group.access says what the group may do",
    "buffered.records.per.partition": "an epoch is bounded by max.records.per.epoch",
    "built.in.metrics.version": _METRICS,
    "config.providers": "env, file and dir are always there: ${env:NAME}, ${file:PATH:KEY}, ${dir:PATH:FILE}",
    "default.client.supplier": _JAVA,
    "default.list.key.serde.inner": "pass a serde for lists itself, for example JsonSerde",
    "default.list.key.serde.type": "pass a serde for lists itself, for example JsonSerde",
    "default.list.value.serde.inner": "pass a serde for lists itself, for example JsonSerde",
    "default.list.value.serde.type": "pass a serde for lists itself, for example JsonSerde",
    "dsl.store.format": "stores of the DSL keep value and timestamp",
    "enable.metrics.push": _METRICS,
    "group.protocol": _ASSIGNOR,
    "log.summary.interval.ms": "progress is given for every epoch",
    "max.warmup.replicas": _ASSIGNOR,
    "metadata.recovery.rebootstrap.trigger.ms": "the client library recovers metadata by its own rules",
    "metadata.recovery.strategy": "the client library recovers metadata by its own rules",
    "metric.reporters": _METRICS,
    "poll.ms": _POLL,
    "probing.rebalance.interval.ms": _ASSIGNOR,
    "processing.exception.handler.global.enabled": (
        "a global store's processor has the processing exception handler, as any other"
    ),
    "processor.wrapper.class": _JAVA,
    "rack.aware.assignment.non_overlap_cost": _ASSIGNOR,
    "rack.aware.assignment.strategy": _ASSIGNOR,
    "rack.aware.assignment.tags": _ASSIGNOR,
    "rack.aware.assignment.traffic_cost": _ASSIGNOR,
    "request.timeout.ms": "set it for one client: producer.request.timeout.ms or consumer.socket.timeout.ms",
    "rocksdb.config.setter": _STORE,
    "state.cleanup.delay.ms": "the state folder belongs to one application and is kept; `hayase app reset` removes it",
    "state.cleanup.dir.max.age.ms": "the state folder belongs to one application and is kept",
    "task.assignor.class": _ASSIGNOR,
    "upgrade.from": "an epoch that is open finishes under the plan it was begun with",
    "window.size.ms": "pass TimeWindowedSerde(inner, window_size_ms)",
    "windowed.inner.class.serde": "pass TimeWindowedSerde(inner, window_size_ms)",
    "windowstore.changelog.additional.retention.ms": "deltas are kept by state.history.retention.ms",
    # newer than 4.3, and internal ones that appear in recipes
    "topology.description.push.enabled": "the plan is kept in the checkpoint; see `hayase describe`",
    "enable.transactional.statestores": "every epoch is one LMDB transaction",
    "statestore.uncommitted.max.bytes": (
        "epoch.memory.max.bytes bounds what an epoch holds in memory; the rest is on disk"
    ),
    "default.interactive.query.isolation.level": "queries see what is committed: of each partition its last epoch",
    "__emit.interval.ms.kstreams.outer.join.spurious.results.fix__": "rows are emitted when they are due",
    "__emit.interval.ms.kstreams.windowed.aggregation__": "rows are emitted when they are due",
    "__iq.consistency.offset": "an answer names the epoch it was read at",
    "__internal.override.topic.prefix__": _SHUFFLE,
    "__processing.threads.enabled__": "Spark runs the tasks",
    "internal.task.assignor.class": _ASSIGNOR,
}

RENAMED: dict[str, str] = {
    "cache.max.bytes.buffering": "statestore.cache.max.bytes",
    "consumer.max.poll.interval.ms": "max.poll.interval.ms",
    "default.deserialization.exception.handler": "deserialization.exception.handler",
    "default.production.exception.handler": "production.exception.handler",
    "main.consumer.max.poll.interval.ms": "max.poll.interval.ms",
}
"""Kafka Streams' deprecated names, and names with a prefix for what is no client's matter here.

The new name wins if both are given.
"""

PREFIXES_WITHOUT_EFFECT: dict[str, str] = {
    "restore.consumer.": "state is restored from the checkpoint, not from changelog topics",
    "global.consumer.": "global tables are read as all topics are; use consumer.",
    "topic.": _SHUFFLE,
    "client.tag.": _ASSIGNOR,
    "config.providers.": "env, file and dir are always there, and are the only ones",
}

CLIENT_KEYS: dict[str, str] = {
    "client.id": "client.id",
    "connections.max.idle.ms": "connections.max.idle.ms",
    "metadata.max.age.ms": "metadata.max.age.ms",
    "receive.buffer.bytes": "socket.receive.buffer.bytes",
    "reconnect.backoff.max.ms": "reconnect.backoff.max.ms",
    "reconnect.backoff.ms": "reconnect.backoff.ms",
    "retry.backoff.ms": "retry.backoff.ms",
    "security.protocol": "security.protocol",
    "send.buffer.bytes": "socket.send.buffer.bytes",
}
"""Settings of all Kafka clients, and what the client library calls them."""
