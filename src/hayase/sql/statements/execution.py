"""What the execution of a statement reads, and what it changes only if it succeeds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from hayase.sql.catalog.catalog import Catalog, QueryLinks
from hayase.sql.catalog.inferred import InferredColumns
from hayase.sql.errors import StatementError
from hayase.sql.functions.registry import FunctionRegistry
from hayase.sql.functions.uses import FunctionCalls
from hayase.sql.statements.results import PersistentQuery
from hayase.sql.statements.topics import TopicAdmin


@dataclass
class Execution:
    """The state of the engine for one statement: copies, which the engine takes over if the statement succeeds.

    Attributes:
        catalog: a copy.
        queries: running queries by id, in the order of their creation; a copy.
        next_number: of the next query's id.
        settings: those of the engine, under those of the session.
        functions: all functions.
        topics: those that exist.
        registry: the schema registry, if there is one.
        variables: by name.
        text: of the statement.
        frozen: columns that the schema registry gave the same statements before.
        is_replayed: it was checked before, when it was executed first: the schema registry is not asked again.
        trusts_scripts: statements may have Python in them.
        calls: calls of the user's functions that the statement has.
        to_create: topics that the statement needs, with partitions and replicas.
        to_delete: topics that go with what the statement drops.
        to_register: register the schemas of what the statement makes.
    """

    catalog: Catalog
    queries: dict[str, PersistentQuery]
    next_number: int
    settings: Mapping[str, object]
    functions: FunctionRegistry
    topics: TopicAdmin
    registry: Any
    variables: Mapping[str, str]
    text: str
    frozen: InferredColumns = field(default_factory=InferredColumns)
    is_replayed: bool = False
    trusts_scripts: bool = False
    calls: FunctionCalls = field(default_factory=FunctionCalls)
    to_create: list[tuple[str, int, int]] = field(default_factory=list)
    to_delete: list[str] = field(default_factory=list)
    to_register: list[Callable[[], object]] = field(default_factory=list)

    def number(self) -> int:
        """The number of a new query."""
        number = self.next_number
        self.next_number += 1
        return number

    def add_query(self, query: PersistentQuery, reads: tuple[str, ...], *, own_sink: bool) -> None:
        """Start a query, or give one that runs a new definition in its place.

        Raises:
            StatementError: another query has that id.
        """
        self.queries[query.id] = query
        self.catalog.add_query(QueryLinks(query.id, reads, query.sink, own_sink))

    def check_new_id(self, query_id: str) -> None:
        """A new query needs an id of its own; raises StatementError."""
        if query_id in self.queries:
            raise StatementError("DUPLICATE_QUERY_ID", f"Query ID '{query_id}' already exists.")

    def stop_query(self, query_id: str) -> None:
        """Stop a query."""
        self.queries.pop(query_id, None)
        self.catalog.remove_query(query_id)

    def partitions(self, topic: str) -> int | None:
        """The partitions of a topic, those that this statement creates included."""
        for name, partitions, _ in self.to_create:
            if name == topic:
                return partitions
        return self.topics.partitions(topic)
