"""Signals to running connectors, by their topics."""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping

import msgspec

from hayase.connect.connector_parts import connector_class
from hayase.connect.contracts import SourceConnector
from hayase.connect.herder.environment import WorkerEnvironment
from hayase.connect.herder.states import BadRequestError
from hayase.connect.offsets import ensure_topic
from hayase.log.protocol import OutputBatch


def send_signal(
    env: WorkerEnvironment, name: str, given: Mapping[str, str], kind: str, data: Mapping[str, object]
) -> dict[str, object]:
    """Write a signal into the topic of a connector, in the form of Debezium; the topic is made if it is absent.

    Args:
        env: of the worker.
        name: the connector.
        given: its configuration.
        kind: of the signal, as `execute-snapshot`.
        data: what it is about.

    Returns:
        Topic and id of the signal.

    Raises:
        BadRequestError: `NO_SIGNALS`: the connector reads none.
    """
    props = env.references.resolved(given)
    cls = connector_class(env.plugins, props)
    where = cls().signal_topic(props) if issubclass(cls, SourceConnector) else None
    if where is None:
        raise BadRequestError(
            "NO_SIGNALS",
            f"Connector {name} reads no signals from a topic; a connector that knows them, as the PostgreSQL source, "
            "does with signal.enabled.channels=source,kafka",
        )
    topic, key = where
    signal_id = str(uuid.uuid4())
    value = msgspec.json.encode({"id": signal_id, "type": kind, "data": data})
    own = env.with_own_log()
    try:
        ensure_topic(own.log, topic, 1, {})
        writer = own.log.writer()
        try:
            writer.append([OutputBatch(topic, [key], [value], [time.time_ns() // 1_000_000])])
        finally:
            writer.close()
    finally:
        env.close_task_log(own.log)
    return {"topic": topic, "id": signal_id}
