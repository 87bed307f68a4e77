"""Settings of SQL as settings of the topologies that its queries become."""

from __future__ import annotations

from collections.abc import Mapping

from hayase.app.runtime_settings import is_of_topologies
from hayase.sql.settings import OF_STREAMS, streams_config
from hayase.sql.statements.processing_log import (
    makes_processing_log_topic,
    processing_log_size,
    processing_log_topic,
)
from hayase.sql.statements.topics import TopicAdmin


def logged_query_settings(
    given: Mapping[str, object], of_queries: Mapping[str, object], topics: TopicAdmin
) -> dict[str, object]:
    """As `query_settings`, with the topic of the processing log if there is one; it is made where the settings say so.

    Args:
        given: see `query_settings`.
        of_queries: see `query_settings`.
        topics: in which it is found and made.
    """
    settings = query_settings(given, of_queries)
    log = processing_log_topic(given)
    if makes_processing_log_topic(given) or topics.partitions(log) is not None:
        settings.setdefault("processing.log.topic.name", log)
        topics.create(log, *processing_log_size(given))
    return settings


def query_settings(given: Mapping[str, object], of_queries: Mapping[str, object]) -> dict[str, object]:
    """The settings of the topology of a query.

    Args:
        given: the settings that count for its statement, by ksqlDB's names.
        of_queries: those of Hayase, for all queries.
    """
    settings = {key: value for key, value in streams_config(given).items() if is_of_topologies(key)}
    return {**settings, **{key: value for key, value in of_queries.items() if key not in OF_STREAMS}}
