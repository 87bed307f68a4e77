"""The settings of ksqlDB that belong to the configuration of a server or program, where SET cannot change them."""

from __future__ import annotations

from collections.abc import Mapping

_HTTP = "HTTP is served as the settings of the server say"
_CONNECT = "for a server's statements about connectors; a program has none"
_THREADS = "a server has a fixed number of threads"
_NODES = "there is no cluster of servers"

SERVER_SETTINGS: Mapping[str, tuple[str, str | None, str]] = {
    "listeners": ("honoured", "http://127.0.0.1:8088", "where a server listens; ksqlDB's default is 0.0.0.0"),
    "ksql.internal.listener": ("accepted", None, "a server has no traffic of its own with other servers"),
    "ksql.advertised.listener": ("accepted", None, "a server has no traffic of its own with other servers"),
    "ksql.verticle.instances": ("accepted", None, _HTTP),
    "ksql.worker.pool.size": ("accepted", "100", _HTTP),
    "ksql.idle.connection.timeout.seconds": ("accepted", "86400", _HTTP),
    "ksql.healthcheck.interval.ms": ("honoured", "5000", "how long a server keeps an answer of /healthcheck"),
    "access.control.allow.origin": ("honoured", "", "web pages that may call a server"),
    "access.control.allow.methods": ("accepted", "", _HTTP),
    "access.control.allow.headers": ("accepted", "", _HTTP),
    "ksql.service.id": ("honoured", "default_", "what names of internal topics begin with"),
    "ksql.internal.topic.replicas": ("accepted", "1", "replication.factor of Hayase counts"),
    "ksql.internal.topic.min.insync.replicas": ("accepted", "1", "the brokers' setting counts"),
    "ksql.persistent.prefix": ("accepted", "query_", "topologies are named by what they write"),
    "ksql.transient.prefix": ("accepted", "transient_", "push queries have no topics of their own"),
    "ksql.schema.registry.url": ("honoured", None, "the schema registry; default: one in the folder of the log"),
    "ksql.connect.url": ("honoured", None, f"{_CONNECT}; default: connectors run in the server"),
    "ksql.connect.request.timeout.ms": ("honoured", "5000", _CONNECT),
    "ksql.connect.basic.auth.credentials.source": ("honoured", "NONE", _CONNECT),
    "ksql.connect.basic.auth.credentials.file": ("honoured", None, _CONNECT),
    "ksql.connect.worker.config": ("honoured", None, "settings of the worker of connectors that run in a server"),
    "ksql.pull.queries.enable": ("honoured", "true", "whether SELECT without EMIT is allowed"),
    "ksql.query.pull.max.qps": ("honoured", "2147483647", "how many pull queries a server answers a second"),
    "ksql.query.pull.max.concurrent.requests": (
        "honoured",
        "2147483647",
        "how many pull queries a server answers at a time",
    ),
    "ksql.query.pull.max.hourly.bandwidth.megabytes": (
        "accepted",
        "2147483647",
        "pull queries are limited by their number, not by their bytes",
    ),
    "ksql.max.push.queries": ("honoured", "100", "how many push queries a server runs at a time"),
    "ksql.query.pull.thread.pool.size": ("accepted", "50", _THREADS),
    "ksql.query.pull.router.thread.pool.size": ("accepted", "50", "no request is handed to another server"),
    "ksql.query.pull.forwarding.timeout.ms": ("accepted", "20000", "no request is handed to another server"),
    "ksql.query.pull.enable.standby.reads": ("accepted", "false", "followers of Hayase answer reads"),
    "ksql.heartbeat.enable": ("accepted", "false", _NODES),
    "ksql.lag.reporting.enable": ("accepted", "false", _NODES),
    "ksql.query.persistent.active.limit": ("accepted", "2147483647", "there is no limit of running queries"),
    "ksql.query.persistent.max.bytes.buffering.total": ("accepted", "-1", "epoch.memory.max.bytes of Hayase counts"),
    "ksql.query.transient.max.bytes.buffering.total": ("accepted", "-1", "epoch.memory.max.bytes of Hayase counts"),
    "ksql.hidden.topics": ("honoured", None, "topics that a server does not list"),
    "ksql.readonly.topics": ("honoured", None, "topics that no statement of a server may write"),
    "ksql.properties.overrides.denylist": ("honoured", "", "what requests to a server may not set"),
    "ksql.properties.overrides.allowlist": ("honoured", "", "what requests to a server may set; empty: anything"),
    "ksql.create.topic.inherit.source.replicas.enabled": ("accepted", "true", "replicas are those of the source"),
    "ksql.streams.shutdown.timeout.ms": (
        "honoured",
        "60000",
        "how long an epoch may take when a query of a server ends; ksqlDB's default is 300000",
    ),
    "ksql.query.retry.backoff.initial.ms": ("honoured", "15000", "when a server tries a failed query again"),
    "ksql.query.retry.backoff.max.ms": (
        "honoured",
        "900000",
        "the longest time until then; it doubles at each failure",
    ),
    "ksql.server.command.response.timeout.ms": (
        "honoured",
        "5000",
        "how long a request waits for the command that it names",
    ),
    "ksql.metastore.backup.location": ("honoured", "", "the folder that a server copies its commands to"),
    "ksql.udfs.python.enabled": ("honoured", "false", "whether CREATE FUNCTION … LANGUAGE PYTHON is allowed"),
    "ksql.queries.file": ("refused", None, "give the script to `hayase sql run`"),
}
"""What becomes of each (honoured, accepted, refused), its default, and what it does or why it does nothing."""
