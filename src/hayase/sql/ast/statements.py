"""Statements."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from hayase.sql.ast.expressions import Expression
from hayase.sql.ast.location import Location
from hayase.sql.ast.queries import Query
from hayase.sql.types.sql_types import SqlType

Properties = tuple[tuple[str, Expression], ...]
"""WITH (…): names in upper case (those in quotes as written), each with a literal."""


class SourceKind(Enum):
    """Streams and tables."""

    STREAM = "STREAM"
    TABLE = "TABLE"


class ColumnKind(Enum):
    """What a declared column is of: `KEY`, `PRIMARY KEY`, the value, `HEADERS`, or `HEADER('k')`."""

    KEY = "KEY"
    PRIMARY_KEY = "PRIMARY KEY"
    VALUE = "VALUE"
    HEADERS = "HEADERS"
    HEADER = "HEADER"


@dataclass(frozen=True, slots=True)
class ColumnDefinition:
    """One column of a CREATE STREAM or TABLE. `header_key` is that of HEADER('…')."""

    name: str
    type: SqlType
    kind: ColumnKind = ColumnKind.VALUE
    header_key: str | None = None
    location: Location | None = field(default=None, compare=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Statement:
    """Base of all statements."""

    location: Location | None = field(default=None, compare=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class CreateSource(Statement):
    """CREATE [OR REPLACE] [SOURCE] STREAM | TABLE [IF NOT EXISTS] name [(columns)] [WITH (…)].

    `columns` is `None` where the list is absent.
    """

    kind: SourceKind
    name: str
    columns: tuple[ColumnDefinition, ...] | None
    properties: Properties = ()
    or_replace: bool = False
    is_source: bool = False
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True)
class CreateAsSelect(Statement):
    """CREATE [OR REPLACE] STREAM | TABLE [IF NOT EXISTS] name [WITH (…)] AS query."""

    kind: SourceKind
    name: str
    query: Query
    properties: Properties = ()
    or_replace: bool = False
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True)
class InsertInto(Statement):
    """INSERT INTO target [WITH (…)] query."""

    target: str
    query: Query
    properties: Properties = ()


@dataclass(frozen=True, slots=True)
class InsertValues(Statement):
    """INSERT INTO target [(columns)] VALUES (…); `columns` is `None` where the list is absent."""

    target: str
    columns: tuple[str, ...] | None
    values: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class DropSource(Statement):
    """DROP STREAM | TABLE [IF EXISTS] name [DELETE TOPIC]."""

    kind: SourceKind
    name: str
    if_exists: bool = False
    delete_topic: bool = False


@dataclass(frozen=True, slots=True)
class AlterSource(Statement):
    """ALTER STREAM | TABLE name ADD [COLUMN] column type, …."""

    kind: SourceKind
    name: str
    columns: tuple[ColumnDefinition, ...]


@dataclass(frozen=True, slots=True)
class CreateType(Statement):
    """CREATE TYPE [IF NOT EXISTS] name AS type."""

    name: str
    type: SqlType
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True)
class CreateFunction(Statement):
    """CREATE [OR REPLACE] FUNCTION [IF NOT EXISTS] name (parameter type, …) RETURNS type LANGUAGE PYTHON AS 'body'."""

    name: str
    parameters: tuple[tuple[str, SqlType], ...]
    returns: SqlType
    body: str
    or_replace: bool = False
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True)
class DropFunction(Statement):
    """DROP FUNCTION [IF EXISTS] name."""

    name: str
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class DropType(Statement):
    """DROP TYPE [IF EXISTS] name."""

    name: str
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class SetProperty(Statement):
    """SET 'name' = 'value'."""

    name: str
    value: str


@dataclass(frozen=True, slots=True)
class UnsetProperty(Statement):
    """UNSET 'name'."""

    name: str


@dataclass(frozen=True, slots=True)
class AlterSystem(Statement):
    """ALTER SYSTEM 'name' = 'value'."""

    name: str
    value: str


@dataclass(frozen=True, slots=True)
class DefineVariable(Statement):
    """DEFINE name = 'value'."""

    name: str
    value: str


@dataclass(frozen=True, slots=True)
class UndefineVariable(Statement):
    """UNDEFINE name."""

    name: str


@dataclass(frozen=True, slots=True)
class SelectQuery(Statement):
    """A transient query."""

    query: Query


class QueryAction(Enum):
    """What is done to a persistent query."""

    TERMINATE = "TERMINATE"
    PAUSE = "PAUSE"
    RESUME = "RESUME"


@dataclass(frozen=True, slots=True)
class QueryControl(Statement):
    """TERMINATE, PAUSE or RESUME of a query's id; `None` means ALL."""

    action: QueryAction
    query_id: str | None


@dataclass(frozen=True, slots=True)
class ListStatement(Statement):
    """LIST | SHOW what [EXTENDED].

    `what` is one of STREAMS, TABLES, TOPICS, ALL TOPICS, QUERIES, FUNCTIONS, PROPERTIES, TYPES, VARIABLES, CONNECTORS,
    SOURCE CONNECTORS, SINK CONNECTORS, CONNECTOR PLUGINS.
    """

    what: str
    extended: bool = False


@dataclass(frozen=True, slots=True)
class Describe(Statement):
    """DESCRIBE name [EXTENDED]; for all of a kind, `name` is `STREAMS` or `TABLES` and `all_of_kind` is true."""

    name: str
    extended: bool = False
    all_of_kind: bool = False


@dataclass(frozen=True, slots=True)
class DescribeFunction(Statement):
    """DESCRIBE FUNCTION name."""

    name: str


@dataclass(frozen=True, slots=True)
class DescribeConnector(Statement):
    """DESCRIBE CONNECTOR name."""

    name: str


@dataclass(frozen=True, slots=True)
class Explain(Statement):
    """EXPLAIN of a statement, or of a query by its id; one of the two is `None`."""

    statement: Statement | None
    query_id: str | None = None


@dataclass(frozen=True, slots=True)
class PrintTopic(Statement):
    """PRINT topic [FROM BEGINNING] [INTERVAL n] [LIMIT n]."""

    topic: str
    from_beginning: bool = False
    interval: int | None = None
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class RunScript(Statement):
    """RUN SCRIPT 'path'."""

    path: str


@dataclass(frozen=True, slots=True)
class CreateConnector(Statement):
    """CREATE SOURCE | SINK CONNECTOR [IF NOT EXISTS] name WITH (…); `kind` is SOURCE or SINK."""

    kind: str
    name: str
    properties: Properties
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True)
class DropConnector(Statement):
    """DROP CONNECTOR [IF EXISTS] name."""

    name: str
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class AssertTopic(Statement):
    """ASSERT [NOT EXISTS] TOPIC name [WITH (…)] [TIMEOUT …]."""

    name: str
    properties: Properties = ()
    exists: bool = True
    timeout_ms: int | None = None


@dataclass(frozen=True, slots=True)
class AssertSchema(Statement):
    """ASSERT [NOT EXISTS] SCHEMA [SUBJECT s] [ID i] [TIMEOUT …]."""

    subject: str | None = None
    id: int | None = None
    exists: bool = True
    timeout_ms: int | None = None


@dataclass(frozen=True, slots=True)
class AssertValues(Statement):
    """ASSERT VALUES source [(columns)] VALUES (…)."""

    source: str
    columns: tuple[str, ...] | None
    values: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class AssertNullValues(Statement):
    """ASSERT NULL VALUES source [(columns)] KEY (…): the next record is a delete of that key."""

    source: str
    columns: tuple[str, ...] | None
    key: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class AssertSource(Statement):
    """ASSERT STREAM | TABLE name [(columns)] [WITH (…)]."""

    kind: SourceKind
    name: str
    columns: tuple[ColumnDefinition, ...] | None
    properties: Properties = ()
