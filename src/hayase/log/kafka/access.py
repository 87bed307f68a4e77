"""Finding out why a cluster does not answer.

librdkafka tries a refused password or an untrusted certificate again forever and tells the reason to a callback only.
So where security is set, a process asks the cluster something harmless before it first uses it, and again when it got
no answer.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import time
from collections.abc import Callable, Mapping
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from hayase.core.errors import LogError
from hayase.core.kafka_security import is_security_key
from hayase.log.kafka.forks import never_freed_in_children

_LOG = logging.getLogger("hayase.log")
_QUIET = logging.Logger("hayase.log.kafka.access", level=logging.CRITICAL + 1)
_NEEDED = ("bootstrap.servers", "client.id", "broker.address.family", "client.dns.lookup")
_CHECK_S = 15.0
_WHY_S = 5.0
_NOTICE_S = 3.0
_GRACE_S = 1.0
"""A cluster of which one broker refuses may answer through another."""
_DOWN_S = 0.3
_POLL_S = 0.01
_NOISE = re.compile(r"\s*\((?:after \d+ms in state [^)]*|[^()]*identical error[^)]*)\)")
_PASSING = ("Disconnected", "Connection reset", "timed out", "Broken pipe")
"""What a handshake with a broker that is just going down ends with; so may one with a listener that knows no TLS."""

_checked: set[tuple[int, int]] = set()


def check_access(settings: Mapping[str, object]) -> None:
    """Make sure, once a process, that the cluster lets a client with these settings in.

    A cluster that does not answer at all passes: the first request to it says so.

    Args:
        settings: of a client, as librdkafka takes them.

    Raises:
        LogError: `AUTHENTICATION_FAILED`, `TLS_FAILED`.
        KafkaException, TypeError, ValueError: the settings are wrong.
    """
    if str(settings.get("security.protocol", "plaintext")).lower() == "plaintext":
        return
    needed = _needed(settings)
    key = os.getpid(), hash(frozenset((name, str(value)) for name, value in needed.items()))
    if key in _checked:
        return
    answered, failures = _ask(needed, _CHECK_S)
    if answered:
        _checked.add(key)
    elif (refused := _refusal(failures)) is not None:
        raise refused


def why_unanswered(settings: Mapping[str, object], error: LogError) -> LogError:
    """A better error than "no answer", if there is one.

    Args:
        settings: of the client that got none, as librdkafka takes them.
        error: the error if the reason is not security.
    """
    try:
        answered, failures = _ask(_needed(settings), _WHY_S)
    except (KafkaException, TypeError, ValueError):  # said where the client was made
        return error
    if answered:
        return error
    if (refused := _refusal(failures)) is not None:
        return refused
    reasons = [_text(failure) for failure in failures if failure.code() != KafkaError._ALL_BROKERS_DOWN]
    if not reasons:
        return error
    return LogError(error.condition, f"{error.message}. The last attempt: {reasons[-1]}", **error.context)


def warn_of_silence(settings: Mapping[str, object]) -> None:
    """Say in the log that the cluster does not answer, and why, before a caller waits for it for a minute.

    Args:
        settings: of a client, as librdkafka takes them.
    """
    with contextlib.suppress(KafkaException, TypeError, ValueError):  # said where the client is made
        answered, failures = _ask(_needed(settings), _NOTICE_S)
        if not answered and _refusal(failures) is None:
            reasons = [_text(each) for each in failures if each.code() != KafkaError._ALL_BROKERS_DOWN]
            where = settings.get("bootstrap.servers", "")
            _LOG.warning(
                "no answer from the Kafka cluster at %s, waiting for it: %s", where, (reasons or ["none yet"])[-1]
            )


def _needed(settings: Mapping[str, object]) -> dict[str, object]:
    return {
        name: value
        for name, value in settings.items()
        if name in _NEEDED or is_security_key(name) or name.startswith("socket.")
    }


def _ask(
    settings: Mapping[str, object], limit_s: float, monotonic: Callable[[], float] = time.monotonic
) -> tuple[bool, list[KafkaError]]:
    """Whether the cluster answers, and what went wrong meanwhile."""
    failures: list[KafkaError] = []
    quick: dict[str, object] = {
        "reconnect.backoff.ms": 50,
        "reconnect.backoff.max.ms": 200,
        "error_cb": failures.append,
    }
    given: dict[str, Any] = {**settings, **quick}  # as the client takes them
    client = never_freed_in_children(AdminClient(given, logger=_QUIET))
    answer = client.describe_cluster(request_timeout=limit_s)
    deadline = monotonic() + limit_s
    patience_s: float | None = None
    while not answer.done() and monotonic() < deadline:
        client.poll(_POLL_S)
        if patience_s is None and failures:
            if any(_refuses(failure) for failure in failures):
                patience_s = _GRACE_S
            elif any(failure.code() == KafkaError._ALL_BROKERS_DOWN for failure in failures):
                patience_s = _DOWN_S
            deadline = min(deadline, monotonic() + patience_s) if patience_s is not None else deadline
    return answer.done() and answer.exception() is None, list(failures)


def _refuses(failure: KafkaError) -> bool:
    """Whether trying again is no use."""
    if failure.code() in (KafkaError._AUTHENTICATION, KafkaError.SASL_AUTHENTICATION_FAILED):
        return True
    return _of_tls(failure) and not any(words in failure.str() for words in _PASSING)


def _of_tls(failure: KafkaError) -> bool:
    """Whether TLS failed. A broker refuses a client's certificate after the handshake: the connection is lost."""
    if failure.code() == KafkaError._TRANSPORT:
        return "SSL routines" in failure.str() and " alert " in failure.str()
    return bool(failure.code() == KafkaError._SSL)


def _refusal(failures: list[KafkaError]) -> LogError | None:
    refusing = next((failure for failure in failures if _refuses(failure)), None)
    if refusing is None:
        return None
    if _of_tls(refusing):
        return LogError(
            "TLS_FAILED",
            f"no TLS connection to the Kafka cluster: {_text(refusing)}. Check ssl.ca.location (the authority that "
            "signed the brokers' certificates), ssl.certificate.location and ssl.key.location (your own certificate), "
            "and the brokers' names in bootstrap.servers",
        )
    return LogError(
        "AUTHENTICATION_FAILED",
        f"the Kafka cluster does not let the client in: {_text(refusing)}. Check sasl.mechanism, sasl.username and "
        "sasl.password",
    )


def _text(failure: KafkaError) -> str:
    return " ".join(_NOISE.sub("", failure.str()).split()).rstrip(".")
