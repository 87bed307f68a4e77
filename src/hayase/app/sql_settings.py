"""Settings of SQL as settings of the topologies that its queries become."""

from __future__ import annotations

from collections.abc import Mapping

from hayase.app.runtime_settings import is_of_topologies
from hayase.sql.settings import OF_STREAMS, streams_config


def query_settings(given: Mapping[str, object], of_queries: Mapping[str, object]) -> dict[str, object]:
    """The settings of the topology of a query.

    Args:
        given: the settings that count for its statement, by ksqlDB's names.
        of_queries: those of Hayase, for all queries.
    """
    settings = {key: value for key, value in streams_config(given).items() if is_of_topologies(key)}
    return {**settings, **{key: value for key, value in of_queries.items() if key not in OF_STREAMS}}
