"""What loads the SQL server while it is measured, each in a process of its own: orders, look-ups, listeners.

Look-ups and listeners speak HTTP/1.1 over kept sockets and read nothing of an answer but what is needed, so that most
of the time on the machine is the server's.
"""

from __future__ import annotations

import json
import re
import selectors
import socket
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import numpy.typing as npt

from bench.measure import RunError
from hayase.core.errors import HayaseError
from hayase.core.records import TopicPartition
from hayase.log.open import open_log
from hayase.log.protocol import LogConfig, OutputBatch

_TICK_S = 0.02
_LOOK_S = 0.005
_ANSWER_S = 30.0
_BATCH = 20_000
_RECEIVED_BYTES = 1 << 18
_KEY_STEP = 7919
_NUMBER = re.compile(rb"^\[(\d+)\]\r?$", re.MULTILINE)
_Times = dict[int, float]
"""When a row was seen, in seconds since 1970, by its number."""


@dataclass(frozen=True, slots=True)
class LookedUp:
    """What look-ups took.

    Attributes:
        latencies_ms: from the time at which a look-up was due to the end of its answer.
        span_s: of all of them.
        client_cpu_s: CPU time of their client.
    """

    latencies_ms: list[float]
    span_s: float
    client_cpu_s: float


def write_orders(log: LogConfig, topic: str, keys: Iterable[int]) -> None:
    """Write an order for each key, as fast as the log takes them; each has the time in µs at which it was written."""
    opened = open_log(log)
    writer = opened.writer()
    numbers = list(keys)
    for first in range(0, len(numbers), _BATCH):
        writer.append([_orders(topic, numbers[first : first + _BATCH])])
    writer.close()
    opened.close()


def feed(ended: Connection, log: LogConfig, topic: str, keys: int, rate: float) -> None:
    """Write so many orders a second until `ended` has something."""
    opened = open_log(log)
    writer = opened.writer()
    begin_s, written = time.monotonic(), 0
    while not ended.poll(max(_TICK_S, begin_s + (written + 1) / rate - time.monotonic())):
        due = int((time.monotonic() - begin_s) * rate) - written
        for first in range(0, due, _BATCH):
            count = min(_BATCH, due - first)
            writer.append([_orders(topic, [(written + place) % keys for place in range(count)])])
            written += count
    writer.close()
    opened.close()


def look_up(url: str, table: str, keys: int, per_s: float, seconds: float, connections: int) -> LookedUp:
    """Look up keys, so many a second, over a few connections.

    A look-up for which no connection is free waits, and that counts.

    Raises:
        RunError: a look-up did not find its row.
    """
    with ExitStack() as stack:
        waits = stack.enter_context(selectors.SelectSelector())
        free = [stack.enter_context(_connected(url)) for _ in range(connections)]
        for each in free:
            waits.register(each, selectors.EVENT_READ)
        sent_for: dict[socket.socket, float] = {}
        received: dict[socket.socket, bytes] = {}
        latencies_ms: list[float] = []
        begin_s, count, cpu_s = time.monotonic(), 0, time.process_time()
        while (now_s := time.monotonic()) < begin_s + seconds or sent_for:
            due_s = begin_s + count / per_s
            while free and due_s <= now_s < begin_s + seconds:
                connection = free.pop()
                connection.sendall(_request(url, f"SELECT * FROM {table} WHERE id = {count * _KEY_STEP % keys};"))
                sent_for[connection], received[connection] = due_s, b""
                count += 1
                due_s = begin_s + count / per_s
            for ready, _ in waits.select(max(0.0, due_s - time.monotonic()) if free else _ANSWER_S):
                connection = ready.fileobj  # type: ignore[assignment]  # what was registered
                received[connection] += connection.recv(_RECEIVED_BYTES)
                if _is_answer(received[connection]):
                    latencies_ms.append((time.monotonic() - sent_for.pop(connection)) * 1000)
                    free.append(connection)
        return LookedUp(latencies_ms, time.monotonic() - begin_s, time.process_time() - cpu_s)


def listen(ended: Connection, url: str, select: str, listeners: int) -> list[_Times]:
    """When each of so many push queries got each row, until `ended` has something."""
    with ExitStack() as stack:
        waits = stack.enter_context(selectors.DefaultSelector())
        waits.register(ended, selectors.EVENT_READ)
        seen: dict[Any, _Times] = {}
        rest: dict[Any, bytes] = {}
        for _ in range(listeners):
            connection = stack.enter_context(_connected(url))
            connection.sendall(_request(url, select, {"auto.offset.reset": "latest"}))
            waits.register(connection, selectors.EVENT_READ)
            seen[connection], rest[connection] = {}, b""
        while True:
            for ready, _ in waits.select():
                if ready.fileobj is ended:
                    return list(seen.values())
                connection = ready.fileobj  # type: ignore[assignment]  # what was registered
                data = connection.recv(_RECEIVED_BYTES)
                if not data:
                    raise RunError(f"a push query has ended: {rest[connection][-200:]!r}")
                lines, _, rest[connection] = (rest[connection] + data).rpartition(b"\n")
                now_s = time.time()
                seen[connection].update(dict.fromkeys(map(int, _NUMBER.findall(lines)), now_s))


def committed_times(ended: Connection, log: LogConfig, topic: str, field: str) -> _Times:
    """When each row of a topic could be read first by one who reads what is committed, until `ended` has something."""
    opened = open_log(log)
    partitions = [TopicPartition(topic, number) for number in range(opened.describe([topic])[topic].partitions)]
    positions = dict(opened.end_offsets(partitions))
    reader = opened.reader()
    seen: _Times = {}
    while not ended.poll(_LOOK_S):
        ends = opened.end_offsets(partitions)
        now_s = time.time()
        for partition, end in ends.items():
            if end > positions[partition]:
                for batch in reader.fetch(partition, positions[partition], end):
                    values: list[bytes | None] = list(batch.values)
                    seen.update((json.loads(value)[field], now_s) for value in values if value is not None)
        positions.update(ends)
    reader.close()
    opened.close()
    return seen


@contextmanager
def beside(work: Callable[..., Any], *arguments: object) -> Iterator[Callable[[], Any]]:
    """Run work in a process of its own; what is given ends it and gives its result, and so does the block's end.

    The work gets, before its arguments, a connection that has something once it is to end.
    """
    context = get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_run, args=(theirs, work, arguments), daemon=True)
    process.start()
    results: list[Any] = []

    def end() -> Any:
        if not results:
            ours.send(None)
            results.append(ours.recv() if ours.poll(_ANSWER_S) else RunError(f"{work.__name__} does not end"))
            process.join(_ANSWER_S)
        if isinstance(results[0], RunError):
            raise results[0]
        return results[0]

    try:
        yield end
        end()
    finally:
        process.kill()


def apart(work: Callable[..., Any], *arguments: object) -> Any:
    """The result of work that ends by itself, in a process of its own."""
    context = get_context("spawn")
    with context.Pool(1) as pool:
        return pool.apply(work, arguments)


def latencies_ms(seen: Iterable[_Times], since: Callable[[int], float | None]) -> npt.NDArray[np.float64]:
    """Milliseconds until each listener had each row, of the rows for which there is a beginning."""
    found = [
        (at_s - begin_s) * 1000 for times in seen for row, at_s in times.items() if (begin_s := since(row)) is not None
    ]
    return np.asarray(found, np.float64)


def _run(connection: Connection, work: Callable[..., Any], arguments: tuple[object, ...]) -> None:
    try:
        connection.send(work(connection, *arguments))
    except (OSError, RunError, HayaseError) as error:
        connection.send(RunError(f"{work.__name__}: {error}"))


def _orders(topic: str, keys: list[int]) -> OutputBatch:
    now_ns = time.time_ns()
    first = now_ns // 1000
    values: list[bytes | None] = [b'{"CENTS":%d,"SENT":%d}' % (key % 1000, first + n) for n, key in enumerate(keys)]
    return OutputBatch(topic, [key.to_bytes(4, "big") for key in keys], values, [now_ns // 1_000_000] * len(keys))


def _connected(url: str) -> socket.socket:
    parts = urlsplit(url)
    connection = socket.create_connection((parts.hostname or "", parts.port or 80), _ANSWER_S)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def _request(url: str, sql: str, properties: dict[str, str] | None = None) -> bytes:
    body = json.dumps({"sql": sql, "properties": properties or {}}).encode()
    host = urlsplit(url).netloc.encode()
    return b"POST /query-stream HTTP/1.1\r\nhost: %b\r\ncontent-length: %d\r\n\r\n%b" % (host, len(body), body)


def _is_answer(received: bytes) -> bool:
    """Whether a look-up's answer is complete; raises RunError for one without its row."""
    head, _, body = received.partition(b"\r\n\r\n")
    length = re.search(rb"content-length: (\d+)", head)
    if length is None or len(body) < int(length[1]):
        return False
    if not head.startswith(b"HTTP/1.1 200") or body.count(b"\n") != 2:
        raise RunError(f"a look-up was answered with {received[:300]!r}")
    return True
