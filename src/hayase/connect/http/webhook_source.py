"""`WebhookSource`: requests as records; each is answered when its record is durable."""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from dataclasses import dataclass

import msgspec
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from hayase.connect.config.config_def import ConfigDef, Importance, TypedConfig
from hayase.connect.config.types import ConfigType
from hayase.connect.config.validators import at_least, non_empty
from hayase.connect.contracts import ExactlyOnceSupport, Props, SourceTask
from hayase.connect.http.json_body import json_of
from hayase.connect.http.request_listener import RequestConnector, RequestTask, define_listener, refusal
from hayase.connect.model import ConnectHeader, Polled, SourceRecord
from hayase.connect.schema import STRING_SCHEMA

_WAIT_S = 0.1
_BATCH = 500


def _definition() -> ConfigDef:
    own = (
        ConfigDef()
        .define(
            "topic", ConfigType.STRING, validator=non_empty, importance=Importance.HIGH,
            documentation="Topic that the requests go to.",
        )
        .define(
            "key.field", ConfigType.STRING, None, None, Importance.MEDIUM,
            "Field of the body whose value is the record's key; none unless given.",
        )
        .define(
            "idempotency.header", ConfigType.STRING, "Idempotency-Key", non_empty, Importance.MEDIUM,
            "Header that names a request: one that comes again gets the first answer and makes no record. CloudEvents "
            "are named by ce-source and ce-id.",
        )
        .define(
            "idempotency.window.ms", ConfigType.LONG, 3_600_000, at_least(0), Importance.MEDIUM,
            "How long names of requests are kept.",
        )
    )  # fmt: skip
    return define_listener(own).define(
        "answer.timeout.ms", ConfigType.LONG, 30_000, at_least(1), Importance.LOW,
        "How long a request waits for its record to be durable; then it is answered 503, and may be repeated.",
    )  # fmt: skip


class WebhookSourceConnector(RequestConnector):
    """Makes a record of each request. Exactly once for requests that have a name."""

    @classmethod
    def config(cls) -> ConfigDef:
        """The keys of the connector."""
        return _definition()

    def task_class(self) -> type[SourceTask]:
        """See `Connector.task_class`."""
        return WebhookSourceTask

    def exactly_once_support(self, props: Props) -> ExactlyOnceSupport:
        """Supported, for requests that have a name."""
        return ExactlyOnceSupport.SUPPORTED


@dataclass(slots=True)
class _Waiting:
    """A request whose record is not durable yet."""

    body: object
    headers: tuple[tuple[str, str], ...]
    name: str | None
    answer: asyncio.Future[int]


class WebhookSourceTask(RequestTask):
    """Listens, and answers after the commit."""

    def start(self, props: Props) -> None:
        """See `Task.start`."""
        config = TypedConfig(_definition(), props)
        self._config = config
        self._topic = config.string("topic")
        self._key = config.optional_string("key.field")
        self._window_ms = config.int("idempotency.window.ms")
        self._queue: queue.Queue[_Waiting] = queue.Queue(config.int("queue.max"))
        self._unanswered: list[_Waiting] = []
        self._lock = threading.Lock()
        self._named: dict[str, asyncio.Future[int]] = {}  # requests that are on their way
        self._known = {
            str(dict(where)["request"]): int(str(offset["at"]))
            for where, offset in self.context.offset_storage_reader.offsets().items()
            if "request" in dict(where)
        }
        self._count = len(self._known)
        self.listen(config, [""], self._receive)

    # in the event loop

    async def _receive(self, request: Request, body: bytes) -> Response:
        try:
            value = json_of(body)
        except ValueError as error:
            return self.listener.refused(400, str(error))
        if len(msgspec.json.encode((self._key_of(value), value))) > self._config.int("body.max.bytes"):
            return self.listener.refused(413, "the key and value of the record are too large")
        try:
            name = self._name_of(request.headers)
        except ValueError as error:
            return self.listener.refused(400, str(error))
        with self._lock:
            if name is not None and name in self._known:
                return JSONResponse({"status": "accepted", "repeated": True})
            answer = None if name is None else self._named.get(name)
            if answer is None:
                answer = asyncio.get_running_loop().create_future()
                waiting = _Waiting(value, tuple(request.headers.items()), name, answer)
                try:
                    self._queue.put_nowait(waiting)
                except queue.Full:
                    return self.listener.refused(429, "too many requests wait; try again later")
                if name is not None:
                    self._named[name] = answer
        timeout_s = self._config.int("answer.timeout.ms") / 1000
        try:
            await asyncio.wait_for(asyncio.shield(answer), timeout_s)
        except (TimeoutError, asyncio.CancelledError):
            return refusal(503, "the record is not durable yet; repeat the request with the same name")
        return JSONResponse({"status": "accepted"})

    def _key_of(self, body: object) -> object:
        return body.get(self._key) if self._key is not None and isinstance(body, dict) else None

    def _name_of(self, headers: Headers) -> str | None:
        """The name of a request; `None`: it has none. An empty one would make all requests repeats of the first."""
        for header in (self._config.string("idempotency.header"), "ce-id"):
            name = headers.get(header)
            if name == "":
                raise ValueError(f"the header {header} is empty: give each request a name, or leave the header out")
            if name is not None:
                return f"{headers.get('ce-source', '')} {name}" if header == "ce-id" else name
        return None

    # in the thread of the task

    def poll(self) -> Polled | None:
        """The requests that have come; waits a little where there are none."""
        try:
            waiting = [self._queue.get(timeout=_WAIT_S)]
        except queue.Empty:
            self._forget_old_names()
            return None
        while len(waiting) < _BATCH:
            try:
                waiting.append(self._queue.get_nowait())
            except queue.Empty:
                break
        self._unanswered.extend(waiting)
        now_ms = time.time_ns() // 1_000_000
        for each in waiting:
            if each.name is not None:
                self.context.publish_offsets({"request": each.name}, {"at": now_ms})
        self._forget_old_names()
        return [self._record(each, now_ms) for each in waiting]

    def _record(self, waiting: _Waiting, now_ms: int) -> SourceRecord:
        self._count += 1
        headers = [ConnectHeader(name, value, STRING_SCHEMA) for name, value in waiting.headers if _kept(name)]
        return SourceRecord(
            source_partition={"webhook": self.context.connector},
            source_offset={"received": self._count},
            topic=self._topic,
            key=self._key_of(waiting.body),
            value=waiting.body,
            timestamp_ms=now_ms,
            headers=tuple(headers),
        )

    def _forget_old_names(self) -> None:
        oldest_ms = time.time_ns() // 1_000_000 - self._window_ms
        with self._lock:
            old = [name for name, at_ms in self._known.items() if at_ms < oldest_ms]
            for name in old:
                del self._known[name]
        for name in old:
            self.context.publish_offsets({"request": name}, None)

    def commit(self) -> None:
        """Answer the requests whose records are durable."""
        answered, self._unanswered = self._unanswered, []
        now_ms = time.time_ns() // 1_000_000
        with self._lock:
            for each in answered:
                if each.name is not None:
                    self._known[each.name] = now_ms
                    self._named.pop(each.name, None)
        self.listener.call(lambda: _answer([each.answer for each in answered]))


def _answer(futures: list[asyncio.Future[int]]) -> None:
    for future in futures:
        if not future.done():
            future.set_result(200)


def _kept(name: str) -> bool:
    return name.startswith(("ce-", "x-")) or name in ("content-type", "user-agent", "traceparent")
