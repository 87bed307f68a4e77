"""Kafka clients as Hayase needs them: their settings and their errors."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from hayase.core.errors import ConfigError, LogError, UnknownTopicError
from hayase.core.kafka_security import usable_settings
from hayase.core.logs import without_secrets
from hayase.core.secrets import known_secrets
from hayase.log.kafka.access import check_access, why_unanswered
from hayase.log.kafka.forks import ReferableConsumer, ReferableProducer, never_freed_in_children
from hayase.log.protocol import LogConfig

Client = TypeVar("Client")

ROLES = ("consumer", "producer", "admin")
"""Prefixes of options that are meant for one kind of client only."""

_LOGGER = logging.getLogger("hayase.log.kafka")
_OF_FENCING = ("fenced", "Producer attempted an operation with an old epoch")


def _calm(record: logging.LogRecord) -> bool:
    """Have the client's lines about a producer that lost its id at INFO; it says CRITICAL.

    Ids are taken whenever topologies come and go or a bundle moves. Where that is an error, one of ours says so.
    """
    text = record.getMessage()
    if record.levelno > logging.INFO and any(each in text for each in _OF_FENCING):
        record.levelno, record.levelname = logging.INFO, "INFO"
    return _LOGGER.isEnabledFor(record.levelno)


# Meeting a broker that restarts is part of normal life, too; configure logging to see it.
_LOGGER.addHandler(logging.NullHandler())
_LOGGER.addFilter(_calm)

_RESERVED = {
    "bootstrap.servers": "it is the location of the log",
    "group.id": "ranges are assigned, not balanced by a group",
    "enable.auto.commit": "progress is part of an epoch",
    "enable.auto.offset.store": "progress is part of an epoch",
    "enable.partition.eof": "the end of a range is found with it",
    "auto.offset.reset": "a lost range must be an error, never a jump",
    "isolation.level": "only committed records are read",
    "transactional.id": "it names the bundle that writes",
    "enable.idempotence": "a retried request must not write twice",
    "delivery.report.only.error": "failures are looked for after every write",
    "partitioner": "a key's partition must be the one that Kafka's own clients choose",
}
"""Settings that correctness depends on, and why they cannot be changed."""

_QUICK = {
    "socket.nagle.disable": True,
    "retry.backoff.ms": 5,
    "retry.backoff.max.ms": 200,
    "reconnect.backoff.ms": 10,
    "reconnect.backoff.max.ms": 1000,
    # Connections are opened at once, not one by one with pauses of 11 ms: a new transactional producer
    # is ready after 6 ms instead of 17.
    "enable.sparse.connections": False,
}
_DEFAULTS: dict[str, dict[str, object]] = {
    "consumer": {
        **_QUICK,
        # When the prefetch is full, look again after 5 ms: the default (1 s) lets the reader starve.
        "fetch.queue.backoff.ms": 5,
        # Small enough to stay near the processor's cache and to waste little when another worker goes on with
        # the partition, large enough to keep the network busy while a batch is processed.
        "queued.max.messages.kbytes": 8192,
        "queued.min.messages": 100_000,
        # A request that waits for data holds up everything behind it on the connection, also a jump to other
        # offsets. Ranges hold data that exists, and a reader at the end of its topic stops asking.
        "fetch.wait.max.ms": 5,
        "check.crcs": False,
    },
    "producer": {
        **_QUICK,
        "compression.type": "lz4",
        "linger.ms": 5,
        "batch.num.messages": 10_000,
        "queue.buffering.max.messages": 100_000,
        "queue.buffering.max.kbytes": 131_072,
        "transaction.timeout.ms": 60_000,
        "message.timeout.ms": 60_000,
    },
    "admin": dict(_QUICK),
}
_FIXED: dict[str, dict[str, object]] = {
    "consumer": {
        # Never joined: the client only insists on a name.
        "group.id": "hayase-reader",
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "enable.partition.eof": True,
        "auto.offset.reset": "error",
        "isolation.level": "read_committed",
    },
    "producer": {
        "enable.idempotence": True,
        "partitioner": "murmur2",
        "delivery.report.only.error": True,
    },
    "admin": {},
}

_UNKNOWN_TOPIC = {
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._UNKNOWN_TOPIC,
    KafkaError._UNKNOWN_PARTITION,
    KafkaError._NOENT,
    KafkaError.UNKNOWN_TOPIC_ID,
}
_DENIED = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}
_PASSING = {
    KafkaError.BROKER_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.KAFKA_STORAGE_ERROR,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NETWORK_EXCEPTION,
    KafkaError.NOT_CONTROLLER,
    KafkaError.NOT_COORDINATOR,
    KafkaError.NOT_ENOUGH_REPLICAS,
    KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.OFFSET_NOT_AVAILABLE,
    KafkaError.REPLICA_NOT_AVAILABLE,
    KafkaError.REQUEST_TIMED_OUT,
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError.UNSTABLE_OFFSET_COMMIT,
}
"""Answers of brokers that start, stop or hand over what they lead. The client marks few of them as retriable."""


def client_settings(config: LogConfig, role: str) -> dict[str, object]:
    """The settings of one kind of client: defaults, then options without prefix, then those of the role.

    Names of the Java clients' security settings are translated, references to secrets resolved.

    Args:
        config: the log; its options may be prefixed with `consumer.`, `producer.` or `admin.`.
        role: one of `ROLES`.

    Raises:
        ConfigError: `RESERVED_CLIENT_SETTING` for a setting that correctness depends on; see `usable_settings`.
    """
    settings: dict[str, object] = {}
    for_role: dict[str, str] = {}
    for option, value in config.options.items():
        prefix, _, rest = option.partition(".")
        name = rest if prefix in ROLES else option
        if name in _RESERVED:
            raise ConfigError(
                "RESERVED_CLIENT_SETTING",
                f"{option!r} cannot be set, because {_RESERVED[name]}; remove it",
                setting=option,
            )
        if prefix == role:
            for_role[name] = value
        elif prefix not in ROLES:
            settings[name] = value
    given = usable_settings(settings | for_role)
    return _DEFAULTS[role] | given | _FIXED[role] | {"bootstrap.servers": config.location}


def given_by_user(config: LogConfig, name: str, role: str = "producer") -> str | None:
    """The value of a client's setting as the log's options have it; `None` if it is left to us."""
    return config.options.get(f"{role}.{name}", config.options.get(name))


def open_consumer(config: LogConfig, on_commit: Callable[..., None] | None = None, **extra: object) -> Consumer:
    """A consumer without assignment; `on_commit` gets the answers to its commits, `extra` as in `open_producer`.

    Raises as that.
    """
    settings = client_settings(config, "consumer")
    if on_commit is not None:
        settings["on_commit"] = on_commit
    return _open(ReferableConsumer, settings | {name.replace("_", "."): value for name, value in extra.items()})


def open_producer(config: LogConfig, **extra: object) -> Producer:
    """A producer; `extra` are settings with `_` for `.`, e.g. `transactional_id`.

    Raises:
        ConfigError: the settings are wrong.
        LogError: `AUTHENTICATION_FAILED`, `TLS_FAILED`: the cluster refuses them; only looked for where security is
            set, once a process.
    """
    settings = client_settings(config, "producer")
    return _open(ReferableProducer, settings | {name.replace("_", "."): value for name, value in extra.items()})


def open_admin(config: LogConfig) -> AdminClient:
    """An admin client. Raises as `open_producer`."""
    return _open(AdminClient, client_settings(config, "admin"))


def _open(kind: Callable[..., Client], settings: Mapping[str, object]) -> Client:
    try:
        check_access(settings)
        return never_freed_in_children(kind(dict(settings), logger=_LOGGER))
    except (KafkaException, TypeError, ValueError) as error:
        reason = kafka_error(error).str() if isinstance(error, KafkaException) else str(error)
        reason = without_secrets(reason, known_secrets(settings))
        raise ConfigError(
            "INVALID_CLIENT_SETTING",
            f"the Kafka client refuses its settings: {reason}. Options of the log are librdkafka's settings, for "
            f"all clients or, with one of the prefixes {', '.join(f'{role}.' for role in ROLES)}, for one kind",
        ) from error


def kafka_error(error: KafkaException) -> KafkaError:
    """The error inside the exception."""
    cause: KafkaError = error.args[0]
    return cause


def log_error(error: KafkaError, doing: str, **context: object) -> LogError:
    """What a refused or unanswered request means to a caller.

    Args:
        error: as the client reports it.
        doing: what was tried, to complete "… failed while <doing>".
        context: topic, partition, group, ...
    """
    if error.code() in _UNKNOWN_TOPIC:
        return UnknownTopicError(
            "UNKNOWN_TOPIC", f"there is no such topic or partition (while {doing}): create it first", **context
        )
    if error.code() in _DENIED:
        return LogError(
            "NOT_AUTHORIZED",
            f"the Kafka cluster denied access while {doing}: {error.str()}. Check the credentials and their rights",
            **context,
        )
    # Negative codes are the client's own: no broker, no answer in time.
    if error.retriable() or error.code() < 0 or error.code() in _PASSING:
        return LogError(
            "BROKER_UNAVAILABLE",
            f"no answer from the Kafka cluster while {doing}: {error.str()} ({error.name()}). Trying again is safe",
            **context,
        )
    return LogError("REQUEST_REFUSED", f"Kafka refused while {doing}: {error.str()} ({error.name()})", **context)


def explained_error(config: LogConfig, role: str, error: KafkaError, doing: str, **context: object) -> LogError:
    """As `log_error`; if the cluster did not answer, it is asked once more why, which may take some seconds."""
    explained = log_error(error, doing, **context)
    if explained.condition != "BROKER_UNAVAILABLE":
        return explained
    return why_unanswered(client_settings(config, role), explained)


@contextmanager
def real_errors() -> Iterator[None]:
    """Raise the client's own error where it is hidden in a SystemError.

    A fatal error, as of a producer that was fenced, is set while the client still calls back into Python, for its
    log and for the records that fail; Python then reports the callback instead.
    """
    try:
        yield
    except SystemError as error:
        cause: BaseException | None = error
        while cause is not None and not isinstance(cause, KafkaException):
            cause = cause.__cause__ or cause.__context__
        if cause is None:  # now and then Python has lost it
            raise KafkaException(KafkaError(KafkaError._FATAL, str(error))) from error
        raise cause from None
