"""Settings of SQL as settings of the topologies that its queries become."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path

from hayase.app.runtime_settings import folder_in, is_of_topologies
from hayase.core.config import StreamsConfig
from hayase.serde.registry import SchemaRegistry
from hayase.sql.registry.embedded import EmbeddedSchemaRegistry
from hayase.sql.settings import OF_STREAMS, streams_config
from hayase.sql.statements.processing_log import (
    makes_processing_log_topic,
    processing_log_size,
    processing_log_topic,
)
from hayase.sql.statements.topics import TopicAdmin
from hayase.storage.open import open_blobs

_LOG = logging.getLogger("hayase.app")
_SCHEMAS = "schemas"
FAILURE_TOPICS = ("errors.dead.letter.queue.topic.name", "processing.log.topic.name")
"""Settings of a topology that name topics to which it writes beside its results."""
_SHARED_SCHEMAS = "@schemas"
"""Beside the checkpoints of applications, none of which can have this name."""


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


def failure_topics(given: Mapping[str, object]) -> dict[str, str]:
    """The topics to which a query writes records that fail, and why they do, by the settings that name them.

    Args:
        given: see `query_settings`.
    """
    of_query = streams_config(given)
    named = {name: of_query[name] for name in FAILURE_TOPICS if of_query.get(name)}
    return {"ksql.logging.processing.topic.name": processing_log_topic(given)} | {
        name: str(topic) for name, topic in named.items()
    }


def registry_of(url: str | None, config: StreamsConfig) -> SchemaRegistry:
    """The schema registry at a URL; else an embedded one, in the folder of the log.

    Beside Kafka it is where checkpoints are if the settings name a place for them: what is in the local folder of
    states may be lost, and other machines have another one, so that an id would stand for two schemas.
    """
    if url:
        return SchemaRegistry(url)
    if not config.bootstrap_servers:
        return EmbeddedSchemaRegistry.in_folder(Path(config.log_dir) / _SCHEMAS)
    local = Path(config.state_dir) / _SCHEMAS
    is_default = Path(config.checkpoint_dir) == Path(config.state_dir) / config.application_id / "checkpoint"
    if is_default:
        return EmbeddedSchemaRegistry.in_folder(local)
    if local.exists():  # earlier releases made the local one in any case
        _LOG.warning(
            "schemas stay in %s, where an earlier run has put them: machines that share %s do not see them. Name a "
            "registry by ksql.schema.registry.url for several machines",
            local, config.checkpoint_dir,
        )  # fmt: skip
        return EmbeddedSchemaRegistry.in_folder(local)
    return EmbeddedSchemaRegistry(open_blobs(folder_in(config.checkpoint_dir, _SHARED_SCHEMAS)))
