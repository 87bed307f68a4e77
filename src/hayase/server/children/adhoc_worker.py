"""The program of a child process: computes ad-hoc SQL with DuckDB, over tables that it is sent.

Requests are lists: `["table", name, rows]` adds rows to a table, `["query", text]` answers the schema of the result,
`["next"]` its next rows or null, `["end"]` lets go of everything. Rows and schemas are streams of Arrow. An answer is a
pair: whether it was done, and what came out or why not.
"""

from __future__ import annotations

import contextlib
import os
import resource
import socket
import sys
from typing import Any

import duckdb
import msgspec
import pyarrow as pa

from hayase.runtime.worker.parent_death import watch_parent
from hayase.server.children.frames import receive, send

MEMORY_BYTES = 256 << 20
"""Of a table, and of DuckDB's own work."""
BATCH_ROWS = 1_000
_PROCESS_BYTES = 1 << 30
_NICE = 5
"""A request of the server comes before a query that takes long."""
_LOCKED = (
    "SET enable_external_access = false",
    "SET autoinstall_known_extensions = false",
    "SET autoload_known_extensions = false",
    "SET python_enable_replacements = false",
    "SET allow_community_extensions = false",
    "SET lock_configuration = true",
)


def main() -> None:
    """Serve the socket whose number is the first argument; the second is the number of the server's process."""
    watch_parent(int(sys.argv[2]))
    os.nice(_NICE)
    with contextlib.suppress(ValueError, OSError):  # not every system bounds it
        resource.setrlimit(resource.RLIMIT_DATA, (_PROCESS_BYTES, _PROCESS_BYTES))
    work = _Work()
    with socket.socket(fileno=int(sys.argv[1])) as server:
        send(server, b"")
        while (request := receive(server)) is not None:
            send(server, msgspec.msgpack.encode(_answer(work, msgspec.msgpack.decode(request))))


def _answer(work: _Work, request: list[Any]) -> tuple[bool, Any]:
    try:
        return True, getattr(work, request[0])(*request[1:])
    except (duckdb.Error, pa.ArrowException, OSError, MemoryError) as error:
        return False, str(error) or "it needs more memory than it may have"


class _Work:
    """One query."""

    def __init__(self) -> None:
        self._tables: dict[str, tuple[pa.Schema, list[pa.RecordBatch]]] = {}
        self._connection: duckdb.DuckDBPyConnection | None = None
        self._reader: pa.RecordBatchReader | None = None

    def table(self, name: str, data: bytes) -> None:
        with pa.ipc.open_stream(data) as stream:
            self._tables.setdefault(name, (stream.schema, []))[1].extend(stream)

    def query(self, text: str) -> bytes:
        self._connection = duckdb.connect(":memory:", config={"threads": 1})
        self._connection.execute(f"SET memory_limit = '{MEMORY_BYTES >> 20}MB'")
        for statement in _LOCKED:
            self._connection.execute(statement)
        for name, (schema, batches) in self._tables.items():
            self._connection.register(name, pa.Table.from_batches(batches, schema))
        self._reader = self._connection.sql(text).to_arrow_reader(BATCH_ROWS)
        return as_stream(self._reader.schema, [])

    def next(self) -> bytes | None:
        assert self._reader is not None
        with contextlib.suppress(StopIteration):
            return as_stream(self._reader.schema, [self._reader.read_next_batch()])
        return None

    def end(self) -> None:
        self._reader = None
        self._tables.clear()
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


def as_stream(schema: pa.Schema, batches: list[pa.RecordBatch]) -> bytes:
    """Batches as bytes."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as stream:
        for batch in batches:
            stream.write_batch(batch)
    data: bytes = sink.getvalue().to_pybytes()
    return data


if __name__ == "__main__":
    main()
