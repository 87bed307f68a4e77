"""What queries need of the server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from hayase.serde.registry import SchemaRegistry
from hayase.server.children.pool import ChildPool
from hayase.server.local_run.tails import LogTails
from hayase.server.pull.stores import QueryStores
from hayase.server.settings import ServerSettings
from hayase.server.topics import LogTopics
from hayase.sql.engine import SqlEngine


class QueryServices(Protocol):
    """What pull and push queries need of the server that they run in.

    Attributes:
        settings: of the server.
        engine: with the catalog, the persistent queries, the functions.
        registry: the schema registry, if there is one.
        topics: those of the log.
        tails: of the log.
        adhoc_children: processes that compute ad-hoc SQL.
        stores: of persistent queries.
    """

    settings: ServerSettings
    engine: SqlEngine
    registry: SchemaRegistry | None
    topics: LogTopics
    tails: LogTails
    adhoc_children: ChildPool

    @property
    def stores(self) -> QueryStores:
        """The stores of persistent queries."""
        ...

    def statement_settings(self, overrides: Mapping[str, object]) -> Mapping[str, object]:
        """The settings that count for one statement: those of the server, and of the request over them."""
        ...
