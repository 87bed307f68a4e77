"""The settings of ksqlDB that belong to the configuration of a server or program, where SET cannot change them."""

from __future__ import annotations

from collections.abc import Mapping

from hayase.sql import setting_values as values

_HTTP = "HTTP is served as the settings of the server say"
_CONNECT = "for a server's statements about connectors; a program has none"
_THREADS = "a server has a fixed number of threads"
_NODES = "there is no cluster of servers"
_INTERNAL_TOPICS = "_hayase.*,_confluent.*,__confluent.*,_schemas,__.*"
_PEM = "the PEM file with"

SERVER_SETTINGS: Mapping[str, tuple[str, str | None, str, values.Read]] = {
    "listeners": (
        "honoured",
        "http://127.0.0.1:8088",
        "where a server listens; ksqlDB's default is 0.0.0.0",
        values.listener,
    ),
    "ksql.internal.listener": (
        "accepted",
        None,
        "a server has no traffic of its own with other servers",
        values.any_text,
    ),
    "ksql.advertised.listener": (
        "accepted",
        None,
        "a server has no traffic of its own with other servers",
        values.any_text,
    ),
    "ksql.verticle.instances": ("accepted", None, _HTTP, values.any_text),
    "ksql.worker.pool.size": ("accepted", "100", _HTTP, values.whole(1)),
    "ksql.idle.connection.timeout.seconds": ("accepted", "86400", _HTTP, values.whole(1)),
    "ksql.healthcheck.interval.ms": (
        "honoured",
        "5000",
        "how long a server keeps an answer of /healthcheck",
        values.whole(1),
    ),
    "access.control.allow.origin": ("honoured", "", "web pages that may call a server", values.names),
    "access.control.allow.methods": ("accepted", "", _HTTP, values.any_text),
    "access.control.allow.headers": ("accepted", "", _HTTP, values.any_text),
    "ksql.service.id": ("honoured", "default_", "what names of internal topics begin with", values.service_id),
    "ksql.internal.topic.replicas": ("accepted", "1", "replication.factor of Hayase counts", values.whole(1)),
    "ksql.internal.topic.min.insync.replicas": ("accepted", "1", "the brokers' setting counts", values.whole(1)),
    "ksql.persistent.prefix": ("accepted", "query_", "topologies are named by what they write", values.any_text),
    "ksql.transient.prefix": ("accepted", "transient_", "push queries have no topics of their own", values.any_text),
    "ksql.schema.registry.url": (
        "honoured",
        None,
        "the schema registry; default: one in the folder of the log",
        values.any_text,
    ),
    "ksql.connect.url": ("honoured", None, f"{_CONNECT}; default: connectors run in the server", values.http_url),
    "ksql.connect.request.timeout.ms": ("honoured", "5000", _CONNECT, values.whole(1)),
    "ksql.connect.basic.auth.credentials.source": ("honoured", "NONE", _CONNECT, values.one_of("NONE", "FILE")),
    "ksql.connect.basic.auth.credentials.file": ("honoured", None, _CONNECT, values.path),
    "ksql.connect.worker.config": (
        "honoured",
        None,
        "settings of the worker of connectors that run in a server",
        values.path,
    ),
    "ksql.pull.queries.enable": ("honoured", "true", "whether SELECT without EMIT is allowed", values.boolean),
    "ksql.query.pull.max.qps": (
        "honoured",
        "2147483647",
        "how many pull queries a server answers a second",
        values.limit,
    ),
    "ksql.query.pull.max.concurrent.requests": (
        "honoured",
        "2147483647",
        "how many pull queries a server answers at a time",
        values.limit,
    ),
    "ksql.query.pull.max.hourly.bandwidth.megabytes": (
        "accepted",
        "2147483647",
        "pull queries are limited by their number, not by their bytes",
        values.whole(1),
    ),
    "ksql.max.push.queries": ("honoured", "100", "how many push queries a server runs at a time", values.whole(1)),
    "ksql.query.pull.thread.pool.size": ("accepted", "50", _THREADS, values.whole(1)),
    "ksql.query.pull.router.thread.pool.size": (
        "accepted",
        "50",
        "no request is handed to another server",
        values.whole(1),
    ),
    "ksql.query.pull.forwarding.timeout.ms": (
        "accepted",
        "20000",
        "no request is handed to another server",
        values.whole(1),
    ),
    "ksql.query.pull.enable.standby.reads": ("accepted", "false", "followers of Hayase answer reads", values.boolean),
    "ksql.heartbeat.enable": ("accepted", "false", _NODES, values.boolean),
    "ksql.lag.reporting.enable": ("accepted", "false", _NODES, values.boolean),
    "ksql.query.persistent.active.limit": (
        "accepted",
        "2147483647",
        "there is no limit of running queries",
        values.whole(1),
    ),
    "ksql.query.persistent.max.bytes.buffering.total": (
        "accepted",
        "-1",
        "epoch.memory.max.bytes of Hayase counts",
        values.whole(-1),
    ),
    "ksql.query.transient.max.bytes.buffering.total": (
        "accepted",
        "-1",
        "epoch.memory.max.bytes of Hayase counts",
        values.whole(-1),
    ),
    "ksql.hidden.topics": ("honoured", _INTERNAL_TOPICS, "topics that a server does not list", values.patterns),
    "ksql.readonly.topics": (
        "honoured",
        _INTERNAL_TOPICS,
        "topics that no statement of a server may write",
        values.patterns,
    ),
    "ksql.properties.overrides.denylist": ("honoured", "", "what requests to a server may not set", values.names),
    "ksql.properties.overrides.allowlist": (
        "honoured",
        "",
        "what requests to a server may set; empty: anything",
        values.names,
    ),
    "ksql.create.topic.inherit.source.replicas.enabled": (
        "accepted",
        "true",
        "replicas are those of the source",
        values.boolean,
    ),
    "ksql.streams.shutdown.timeout.ms": (
        "honoured",
        "60000",
        "how long an epoch may take when a query of a server ends; ksqlDB's default is 300000",
        values.whole(1),
    ),
    "ksql.query.retry.backoff.initial.ms": (
        "honoured",
        "15000",
        "when a server tries a failed query again",
        values.whole(1),
    ),
    "ksql.query.retry.backoff.max.ms": (
        "honoured",
        "900000",
        "the longest time until then; it doubles at each failure",
        values.whole(1),
    ),
    "ksql.server.command.response.timeout.ms": (
        "honoured",
        "5000",
        "how long a request waits for the command that it names",
        values.whole(1),
    ),
    "ksql.metastore.backup.location": (
        "honoured",
        "",
        "the folder that a server copies its commands to",
        values.path,
    ),
    "ksql.udfs.python.enabled": (
        "honoured",
        "false",
        "whether CREATE FUNCTION … LANGUAGE PYTHON is allowed",
        values.boolean,
    ),
    "authentication.method": ("honoured", "NONE", "NONE, or BASIC with a users file", values.one_of("NONE", "BASIC")),
    "authentication.realm": ("honoured", "hayase", "what browsers show where they ask for a password", values.any_text),
    "authentication.skip.paths": ("honoured", "", "paths that need no authentication", values.names),
    "ssl.certificate.location": ("honoured", None, f"{_PEM} the server's certificate", values.path),
    "ssl.key.location": ("honoured", None, f"{_PEM} its key", values.path),
    "ssl.ca.location": ("honoured", None, f"{_PEM} the authority of clients' certificates", values.path),
    "hayase.server.users.file": ("honoured", None, "users with hashes of passwords, and roles", values.path),
    "hayase.server.allowed.hosts": ("honoured", "", "names under which clients may call a server", values.names),
    "hayase.server.max.body.bytes": ("honoured", "1048576", "the longest body of a request", values.whole(1)),
    "hayase.server.pull.timeout.ms": (
        "honoured",
        "120000",
        "how long the rows of a pull query may be computed",
        values.whole(1),
    ),
    "hayase.server.pull.max.rows": (
        "honoured",
        "2147483647",
        "how many rows a pull query may answer",
        values.limit,
    ),
    "hayase.server.function.timeout.ms": (
        "honoured",
        "5000",
        "how long a call of a statement's Python may take",
        values.whole(1),
    ),
    "hayase.server.in.process": (
        "honoured",
        "false",
        "whether queries run in the server's process, without Spark",
        values.boolean,
    ),
    "hayase.server.local.state.bytes": (
        "honoured",
        "268435456",
        "how much state a query in the server's process may have",
        values.whole(1),
    ),
    "hayase.server.queries.nice": (
        "honoured",
        "10",
        "how far queries on Spark give way to requests on a busy machine: 0 (not at all) to 19",
        values.whole(0, 19),
    ),
    "ksql.queries.file": ("refused", None, "give the script to `hayase sql run`", values.any_text),
}
"""What becomes of each (honoured, accepted, refused), its default, what it does or why it does nothing, and what reads
its text."""
