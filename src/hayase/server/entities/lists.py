"""LIST and SHOW: topics, functions, settings, types, variables, connectors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from hayase.core.config_table import SETTINGS as SETTINGS_OF_STREAMS
from hayase.core.logs import MASK, is_secret
from hayase.server.connectors.statements import list_connectors, list_plugins
from hayase.server.context import ServerContext
from hayase.server.entities.queries import queries, query_description
from hayase.server.entities.schema_info import schema_info
from hayase.server.entities.sources import listed_source, listed_sources, source_description
from hayase.sql.ast.statements import ListStatement, SourceKind
from hayase.sql.errors import StatementError
from hayase.sql.functions.declarations import Declaration
from hayase.sql.settings import SETTINGS, STREAMS_PREFIX

Entity = dict[str, object]


@dataclass(frozen=True)
class Listing:
    """What a LIST statement is answered from.

    Attributes:
        context: of the server.
        settings: that count for the statement.
        overrides: those of the request.
        variables: of the session.
        extended: whether it said EXTENDED.
    """

    context: ServerContext
    settings: Mapping[str, object]
    overrides: Mapping[str, object]
    variables: Mapping[str, str]
    extended: bool


def list_entity(statement: ListStatement, listing: Listing) -> Entity:
    """The answer of a LIST statement.

    Raises:
        StatementError: there is no such list.
    """
    found = _LISTS.get(statement.what)
    if found is None:
        raise StatementError("NOT_EXECUTABLE", f"LIST {statement.what} has no answer here")
    return found(listing)


def function_entity(context: ServerContext, name: str) -> Entity:
    """The answer of DESCRIBE FUNCTION; raises StatementError if there is no such function."""
    overloads = context.engine.functions.overloads(name)
    first = overloads[0]
    return {
        "@type": "describe_function",
        "name": name.upper(),
        "description": first.description,
        "author": "",
        "version": "",
        "path": "internal",
        "functions": [_overload(each) for each in overloads],
        "type": first.kind.value,
    }


def _overload(declaration: Declaration) -> Entity:
    parameters = declaration.signature.parameters
    arguments = [
        {
            "name": parameter.name or f"arg{place}",
            "type": str(parameter.pattern),
            "description": "",
            "isVariadic": parameter.variadic,
        }
        for place, parameter in enumerate(parameters, 1)
    ]
    result = declaration.signature.result
    return {
        "arguments": arguments,
        "returnType": declaration.text.rpartition("->")[2].strip() if result is None else str(result),
        "description": declaration.description,
        "argumentTypes": [argument["type"] for argument in arguments],
    }


def _sources(kind: SourceKind) -> Callable[[Listing], Entity]:
    name = f"{kind.value.lower()}s"

    def entity(listing: Listing) -> Entity:
        sources = listed_sources(listing.context, kind)
        if not listing.extended:
            return {"@type": name, name: [listed_source(source) for source in sources]}
        described = [source_description(listing.context, source, extended=True) for source in sources]
        return {"@type": "source_descriptions", "sourceDescriptions": described}

    return entity


def _topics(*, hidden: bool) -> Callable[[Listing], Entity]:
    def entity(listing: Listing) -> Entity:
        context = listing.context
        names = context.topics.all_names() if hidden else context.topics.names()
        infos = context.log.describe(sorted(names))
        topics: list[Entity] = [
            {"name": name, "replicaInfo": [context.topics.replicas(name)] * infos[name].partitions}
            for name in sorted(infos)
        ]
        if not listing.extended:
            return {"@type": "kafka_topics", "topics": topics}
        for topic in topics:
            readers = [each for each in context.engine.queries.values() if topic["name"] in each.source_topics]
            topic["consumerCount"] = topic["consumerGroupCount"] = len(readers)
        return {"@type": "kafka_topics_extended", "topics": topics}

    return entity


def _queries(listing: Listing) -> Entity:
    context = listing.context
    if not listing.extended:
        return {"@type": "queries", "queries": queries(context)}
    described = [query_description(context, query) for query in context.engine.queries.values()]
    return {"@type": "query_descriptions", "queryDescriptions": described}


def _functions(listing: Listing) -> Entity:
    registry = listing.context.engine.functions
    functions = []
    for name in registry.names():
        declaration = registry.overloads(name)[0]
        family = getattr(declaration.target, "__module__", "").rpartition(".")[2]
        functions.append({"name": name, "type": declaration.kind.value, "category": family.upper()})
    return {"@type": "function_names", "functions": functions}


def _properties(listing: Listing) -> Entity:
    names = sorted({*SETTINGS, *listing.settings})
    rows = []
    for name in names:
        value = listing.settings.get(name)
        rows.append(
            {
                "name": name,
                "scope": "KSQL",
                "value": None if value is None else MASK if _is_hidden(name) else str(value),
                "editable": name not in SETTINGS or SETTINGS[name].is_editable,
                "level": "QUERY" if name in listing.overrides else "SERVER",
            }
        )
    defaults = [name for name in names if name in SETTINGS and listing.settings.get(name) == SETTINGS[name].default]
    return {
        "@type": "properties",
        "properties": rows,
        "overwrittenProperties": sorted(listing.overrides),
        "defaultProperties": defaults,
    }


def _is_hidden(name: str) -> bool:
    """Whether a value is a secret: of a setting of clients, for none of SQL or of queries is one."""
    plain = name.removeprefix(STREAMS_PREFIX)
    return is_secret(name) and name not in SETTINGS and plain not in SETTINGS_OF_STREAMS


def _types(listing: Listing) -> Entity:
    types = listing.context.engine.catalog.types
    return {"@type": "type_list", "types": {name: schema_info(types[name]) for name in sorted(types)}}


def _variables(listing: Listing) -> Entity:
    variables = [{"name": name, "value": value} for name, value in listing.variables.items()]
    return {"@type": "variables", "variables": variables}


def _connectors(kind: str | None) -> Callable[[Listing], Entity]:
    return lambda listing: list_connectors(listing.context.connect, kind)


_LISTS: dict[str, Callable[[Listing], Entity]] = {
    "STREAMS": _sources(SourceKind.STREAM),
    "TABLES": _sources(SourceKind.TABLE),
    "TOPICS": _topics(hidden=False),
    "ALL TOPICS": _topics(hidden=True),
    "QUERIES": _queries,
    "FUNCTIONS": _functions,
    "PROPERTIES": _properties,
    "TYPES": _types,
    "VARIABLES": _variables,
    "CONNECTORS": _connectors(None),
    "SOURCE CONNECTORS": _connectors("source"),
    "SINK CONNECTORS": _connectors("sink"),
    "CONNECTOR PLUGINS": lambda listing: list_plugins(listing.context.connect),
}
