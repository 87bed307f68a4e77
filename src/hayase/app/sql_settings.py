"""Settings of SQL as settings of the topologies that its queries become."""

from __future__ import annotations

from collections.abc import Mapping

from hayase.app.runtime_settings import is_of_topologies
from hayase.sql.settings import STREAMS_PREFIX

TO_TOPOLOGY = {
    "cache.max.bytes.buffering": "statestore.cache.max.bytes",
    "statestore.cache.max.bytes": "statestore.cache.max.bytes",
    "commit.interval.ms": "commit.interval.ms",
    "auto.offset.reset": "auto.offset.reset",
    "processing.guarantee": "processing.guarantee",
}
"""ksqlDB's names, and those of Hayase."""
_FAIL_ON_DESERIALIZATION = "ksql.fail.on.deserialization.error"
_FAIL_ON_PRODUCTION = "ksql.fail.on.production.error"


def topology_settings(given: Mapping[str, object], of_queries: Mapping[str, object]) -> dict[str, object]:
    """The settings of the topology of a query.

    Args:
        given: the settings that count for its statement, by ksqlDB's names.
        of_queries: those of Hayase, for all queries.
    """
    settings: dict[str, object] = {}
    for key, value in given.items():
        plain = key.removeprefix(STREAMS_PREFIX)
        if plain in TO_TOPOLOGY:
            settings[TO_TOPOLOGY[plain]] = value
        elif key.startswith(STREAMS_PREFIX) and is_of_topologies(plain):
            settings[plain] = value
    handler = "log_and_fail" if _is_true(given.get(_FAIL_ON_DESERIALIZATION)) else "log_and_continue"
    settings["deserialization.exception.handler"] = handler
    if not _is_true(given.get(_FAIL_ON_PRODUCTION, True)):
        settings["production.exception.handler"] = "log_and_continue"
    return {**settings, **{key: value for key, value in of_queries.items() if key not in TO_TOPOLOGY}}


def _is_true(value: object) -> bool:
    return str(value).lower() == "true"
