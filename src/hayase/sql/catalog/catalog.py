"""The catalog: what statements find by name."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from hayase.sql.ast.statements import SourceKind
from hayase.sql.catalog.sources import DataSource
from hayase.sql.errors import StatementError
from hayase.sql.types.sql_types import ArrayType, MapType, NamedType, SqlType, StructType


@dataclass(frozen=True, slots=True)
class QueryLinks:
    """The sources that a persistent query reads, and the one that it writes.

    Attributes:
        query_id: of the query.
        reads: names of sources.
        writes: name of the source it writes; `None` for a query that only keeps a table.
        own_sink: it was made with its sink, and goes with it.
    """

    query_id: str
    reads: tuple[str, ...]
    writes: str | None
    own_sink: bool


@dataclass
class Catalog:
    """Sources, types, and the links between queries and sources. A copy can be changed without changing this one."""

    sources: dict[str, DataSource] = field(default_factory=dict)
    types: dict[str, SqlType] = field(default_factory=dict)
    queries: dict[str, QueryLinks] = field(default_factory=dict)

    def copy(self) -> Catalog:
        """A catalog with the same contents."""
        return Catalog(dict(self.sources), dict(self.types), dict(self.queries))

    def __iter__(self) -> Iterator[DataSource]:
        return iter(self.sources.values())

    def find(self, name: str) -> DataSource | None:
        """The source of that name, `None` if there is none."""
        return self.sources.get(name)

    def put(self, source: DataSource) -> None:
        """Add a source, or replace the one of its name."""
        self.sources[source.name] = source

    def remove(self, name: str) -> None:
        """Forget a source."""
        del self.sources[name]

    def add_query(self, links: QueryLinks) -> None:
        """Note which sources a query reads and writes."""
        self.queries[links.query_id] = links

    def remove_query(self, query_id: str) -> None:
        """Forget a query."""
        self.queries.pop(query_id, None)

    def readers(self, name: str) -> list[str]:
        """Ids of the queries that read a source."""
        return [links.query_id for links in self.queries.values() if name in links.reads]

    def writers(self, name: str) -> list[str]:
        """Ids of the queries that write a source."""
        return [links.query_id for links in self.queries.values() if links.writes == name]

    def circle_of(self, query_id: str) -> list[str]:
        """The sources on the way from what a query writes to what it reads, both included; empty if there is none.

        Sources over one topic are one.
        """
        start = self.queries[query_id]
        if start.writes is None:
            return []
        wanted = self._topics_of(start.reads)
        ways = [[start.writes]]
        seen = self._topics_of([start.writes])
        while ways:
            way = ways.pop(0)
            topics = self._topics_of([way[-1]])
            if topics & wanted:
                return way
            for links in self.queries.values():
                next_topics = set() if links.writes is None else self._topics_of([links.writes])
                if topics & self._topics_of(links.reads) and not next_topics <= seen and links.writes is not None:
                    seen |= next_topics
                    ways.append([*way, links.writes])
        return []

    def _topics_of(self, names: Iterable[str]) -> set[str]:
        return {self.sources[name].topic for name in names if name in self.sources}

    def own_query(self, name: str) -> str | None:
        """The query that was made together with a source."""
        for links in self.queries.values():
            if links.writes == name and links.own_sink:
                return links.query_id
        return None

    def derived(self, name: str) -> list[str]:
        """Names of the sources that CREATE … AS SELECT made from a source."""
        found = (links for links in self.queries.values() if name in links.reads and links.own_sink)
        return sorted(links.writes for links in found if links.writes is not None and links.writes != name)

    def resolve_type(self, type_: SqlType) -> SqlType:
        """A type with each custom type replaced by what it stands for.

        Raises:
            StatementError: there is no type of a name.
        """
        match type_:
            case NamedType(name):
                if name not in self.types:
                    raise StatementError("UNKNOWN_TYPE", f"Cannot resolve unknown type: {name}")
                return self.types[name]
            case ArrayType(item):
                return ArrayType(self.resolve_type(item))
            case MapType(key, value):
                return MapType(self.resolve_type(key), self.resolve_type(value))
            case StructType(fields):
                return StructType(tuple((name, self.resolve_type(field_type)) for name, field_type in fields))
        return type_

    def similar(self, name: str) -> list[DataSource]:
        """Sources whose names differ from a name in case only."""
        return [source for source in self if source.name != name and source.name.upper() == name.upper()]

    def changed(self, name: str, **changes: object) -> DataSource:
        """A source with other attributes, put in place of the one there was."""
        source = replace(self.sources[name], **changes)  # type: ignore[arg-type]  # attributes of any type
        self.sources[name] = source
        return source


def require_source(catalog: Catalog, name: str) -> DataSource:
    """The source of that name.

    Raises:
        StatementError: there is none; the text names similar ones.
    """
    source = catalog.find(name)
    if source is None:
        raise StatementError("UNKNOWN_SOURCE", f"{name} does not exist.{did_you_mean(catalog, name)}")
    return source


def did_you_mean(catalog: Catalog, name: str) -> str:
    """A hint at sources whose names differ in case only, else at the one whose name is nearest."""
    found = catalog.similar(name)
    if not found:
        near = difflib.get_close_matches(name, sorted(source.name for source in catalog), n=1)
        return f"\nDid you mean {near[0]}?" if near else ""
    names = [source.name for source in found]
    text = names[0] if len(names) == 1 else ", ".join(names[:-1]) + " or " + names[-1]
    quotes = all(name.isupper() for name in names)
    hint = "try removing double quotes from the source name" if quotes else "wrap the source name in double quotes"
    return f"\nDid you mean {text}? Hint: {hint}."


def kind_text(kind: SourceKind) -> str:
    """Stream or table, as messages begin with it."""
    return kind.value.capitalize()
