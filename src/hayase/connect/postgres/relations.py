"""Tables as the stream describes them: as they were when a change was made, whatever became of them since."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection

from hayase.connect.postgres.catalog import Query, Table, TableColumn, read_table_of
from hayase.connect.postgres.pgoutput import Relation


def table_of(query: Query, relation: Relation, nullable: Collection[str]) -> Table:
    """The table of a relation.

    Name, columns and replica identity are those of the stream. The catalog, which is of now, adds what the stream does
    not have: the primary key of a table with `REPLICA IDENTITY FULL`, which columns may be null, and defaults. It is
    asked by the relation's number: the name may be another table's by now.

    Args:
        query: asks the database.
        relation: as the stream has it.
        nullable: columns that are known to have been null, though the catalog says that they cannot be now.
    """
    now = read_table_of(query, relation.oid)
    known = {} if now is None else {column.name: column for column in now.columns}
    flagged = tuple(column.name for column in relation.columns if column.identity)
    by_key = relation.identity in ("d", "i")
    columns = tuple(
        TableColumn(
            column.name,
            column.type_oid,
            column.modifier,
            column.name not in nullable
            and (known[column.name].not_null if column.name in known else by_key and column.identity),
            known[column.name].default if column.name in known else None,
        )
        for column in relation.columns
    )
    if now is None:
        key = flagged if by_key else ()
        return Table(relation.namespace, relation.name, False, relation.identity, columns, key, key)
    table = dataclasses.replace(
        now, namespace=relation.namespace, name=relation.name, identity=relation.identity, columns=columns
    )
    names = {column.name for column in columns}
    if by_key and flagged and set(flagged) != set(now.identity_key):  # the key was changed since
        return dataclasses.replace(table, primary_key=flagged, identity_key=flagged)
    if not names.issuperset(now.identity_key):
        return dataclasses.replace(table, primary_key=(), identity_key=())
    return table
