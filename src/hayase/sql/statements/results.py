"""What statements leave behind: messages, queries, records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from hayase.sql.analysis.steps import Step

if TYPE_CHECKING:  # a server answers its first requests without it
    from hayase.topology.topology import Topology


class QueryKind(Enum):
    """What made a persistent query."""

    CREATE_AS = "CREATE_AS"
    CREATE_SOURCE = "CREATE_SOURCE"
    INSERT = "INSERT"


@dataclass(frozen=True)
class PersistentQuery:
    """A query that goes on.

    Attributes:
        id: `CSAS_<SINK>_<n>`, `CTAS_<SINK>_<n>`, `INSERTQUERY_<n>`, `CST_<NAME>_<n>`, or the one given by QUERY_ID.
        kind: what made it.
        sink: name of the source that it writes; `None` if it only keeps a table.
        topology: that computes it.
        source_topics: the topics that it reads.
        sink_topic: the topic that it writes.
        statement: the text that made it.
        plan: the logical plan, to compare with that of a later definition.
    """

    id: str
    kind: QueryKind
    sink: str | None
    topology: Topology
    source_topics: tuple[str, ...]
    sink_topic: str | None
    statement: str
    plan: Step


@dataclass(frozen=True)
class ProducedRecord:
    """A record that INSERT VALUES writes; `timestamp_ms` is `None` where the wall clock counts."""

    topic: str
    key: bytes | None
    value: bytes | None
    timestamp_ms: int | None


@dataclass(frozen=True)
class StatementResult:
    """What a statement did.

    Attributes:
        message: for people.
        started: queries that begin, or go on with a new definition.
        stopped: ids of queries that end.
        records: to be written.
        rows: what LIST, DESCRIBE and EXPLAIN answer.
        warnings: what the user should know although the statement succeeded.
    """

    message: str
    started: tuple[PersistentQuery, ...] = ()
    stopped: tuple[str, ...] = ()
    records: tuple[ProducedRecord, ...] = ()
    rows: tuple[Mapping[str, object], ...] = ()
    warnings: tuple[str, ...] = ()
