"""`HttpSink`: records as requests, at least once, each with an idempotency key."""

from __future__ import annotations

import http.client
import json
import ssl
import time
import urllib.parse
from collections.abc import Sequence

from hayase.connect.config.config_def import ConfigDef, Importance, TypedConfig
from hayase.connect.config.types import ConfigType
from hayase.connect.config.validators import at_least, matching, one_of
from hayase.connect.contracts import Props, SinkConnector, SinkTask
from hayase.connect.exceptions import ConnectError, RetriableError
from hayase.connect.model import SinkRecord
from hayase.connect.simple_connector import SimpleConnector

_RETRIED = (408, 425, 429, 500, 502, 503, 504)
_SHOWN = 200
_FIRST_PAUSE_MS, _LONGEST_PAUSE_MS = 100, 10_000
_LONGEST_WAIT_S = 3600
"""Whatever a server asks for by Retry-After."""
_DIGITS_MAX = 9
_ANSWER_BYTES_MAX = 1 << 16
_SAFE = "".join(chr(code) for code in range(0x21, 0x7F) if chr(code) not in '"%')


def _definition() -> ConfigDef:
    return (
        ConfigDef()
        .define(
            "http.url", ConfigType.STRING, validator=matching(r"https?://.+", "give http://… or https://…"),
            importance=Importance.HIGH, documentation="Where the requests go.",
        )
        .define(
            "http.method", ConfigType.STRING, "POST", one_of("POST", "PUT", "PATCH", ignore_case=True),
            Importance.MEDIUM, "Method of the requests.",
        )
        .define(
            "http.headers", ConfigType.LIST, [], None, Importance.MEDIUM,
            "Headers of the requests, as NAME:VALUE.",
        )
        .define(
            "http.authorization", ConfigType.PASSWORD, None, None, Importance.MEDIUM,
            "Value of the header Authorization.",
        )
        .define(
            "http.timeout.ms", ConfigType.INT, 30_000, at_least(1), Importance.LOW,
            "How long to wait for an answer.",
        )
        .define(
            "batch.size", ConfigType.INT, 1, at_least(1), Importance.MEDIUM,
            "Records of a request: 1: the value as it is; more: a JSON array of values.",
        )
        .define(
            "idempotency.header", ConfigType.STRING, "Idempotency-Key", None, Importance.LOW,
            "Header that names the records of a request: a repeated request has the same.",
        )
        .define(
            "cloudevents", ConfigType.BOOLEAN, False, None, Importance.MEDIUM,
            "Whether attributes of CloudEvents in headers of a record (ce_…) are sent as headers of the request (ce-…, "
            "the HTTP binding). The idempotency key is then ce_id, where a record has it: one that was written twice "
            "under the same id has the same key. With batch.size=1.",
        )
    )  # fmt: skip


class HttpSinkConnector(SimpleConnector, SinkConnector):
    """Sends records to an HTTP server, at least once; the idempotency key lets the server recognize a repeat."""

    @classmethod
    def config(cls) -> ConfigDef:
        """The keys of the connector."""
        return _definition()

    def task_class(self) -> type[SinkTask]:
        """See `Connector.task_class`."""
        return HttpSinkTask


class HttpSinkTask(SinkTask):
    """Sends records over one connection that is kept."""

    _connection: http.client.HTTPConnection | None = None

    def start(self, props: Props) -> None:
        """See `Task.start`."""
        config = TypedConfig(_definition(), props)
        self._url = urllib.parse.urlsplit(config.string("http.url"))
        self._target = urllib.parse.urlunsplit(("", "", self._url.path or "/", self._url.query, ""))
        self._method = config.string("http.method").upper()
        self._batch = config.int("batch.size")
        self._timeout_s = config.int("http.timeout.ms") / 1000
        self._idempotency = config.string("idempotency.header")
        self._cloud_events = config.bool("cloudevents")
        if self._cloud_events and self._batch > 1:
            raise ConnectError(
                "INVALID_CONFIGURATION",
                f"batch.size is {self._batch} and cloudevents is true: a request is one event; leave out one of them",
            )
        self._headers = {"Content-Type": "application/json"}
        for header in config.list("http.headers"):
            name, _, value = header.partition(":")
            self._headers[name.strip()] = value.strip()
        authorization = config.password("http.authorization")
        if authorization is not None:
            self._headers["Authorization"] = authorization
        self._answered: set[str] = set()  # names of requests of a call of `put` that has not come to its end
        self._pause_ms = _FIRST_PAUSE_MS  # before the next request is sent again

    def put(self, records: Sequence[SinkRecord]) -> None:
        """Send the records; returns when the server has answered all requests.

        Where it ends with an error and is called again, it goes on behind the requests that were answered: a server
        that refuses some now and then would else not get to the end of many records.
        """
        names = []
        for start in range(0, len(records), self._batch):
            part = records[start : start + self._batch]
            names.append(_name_of(part))
            if names[-1] not in self._answered:
                self._send(part)
                self._answered.add(names[-1])
                self._pause_ms = _FIRST_PAUSE_MS
        self._answered.difference_update(names)

    def _send(self, records: Sequence[SinkRecord]) -> None:
        body = _body(records[0].value) if self._batch == 1 else b"[" + b",".join(map(_value, records)) + b"]"
        headers = {**self._headers, self._idempotency: _name_of(records)}
        if self._cloud_events:
            attributes = _attributes(records[0])
            headers |= attributes
            if "ce-id" in attributes:
                headers[self._idempotency] = attributes["ce-id"]
        try:
            connection = self._opened()
            connection.request(self._method, self._target, body, headers)
            answer = connection.getresponse()
            text = self._read(answer)
        except (OSError, http.client.HTTPException) as error:
            self._close()
            self._pause()
            raise RetriableError("SERVER_AWAY", f"{self._url.netloc} does not answer: {error}") from error
        if answer.status in _RETRIED:
            self._pause()
            seconds = answer.getheader("Retry-After", "")
            if seconds.isdecimal():
                self.context.timeout_ms(1000 * min(int(seconds[:_DIGITS_MAX]), _LONGEST_WAIT_S))
            raise RetriableError("SERVER_BUSY", f"{self._url.netloc} answers {answer.status} {answer.reason}")
        if not 200 <= answer.status < 300:
            shown = text[:_SHOWN].decode(errors="replace")
            raise ConnectError(
                "REQUEST_REFUSED", f"{self._url.netloc} answers {answer.status} {answer.reason}: {shown}",
                topic=records[0].topic, partition=records[0].kafka_partition, offset=records[0].kafka_offset,
            )  # fmt: skip

    def _read(self, answer: http.client.HTTPResponse) -> bytes:
        """The answer, or the beginning of a long one; raises TimeoutError where it takes longer than it may."""
        deadline = time.monotonic() + self._timeout_s
        text = b""
        while part := answer.read1(_ANSWER_BYTES_MAX - len(text)):
            text += part
            if len(text) == _ANSWER_BYTES_MAX:
                self._close()  # what is left of it is not wanted
                break
            if time.monotonic() > deadline:
                raise TimeoutError("the answer does not come to its end")
        return text

    def _pause(self) -> None:
        """Have one request sent again after pauses that grow; those of the worker grow over all records of a `put`."""
        self.context.timeout_ms(self._pause_ms)
        self._pause_ms = min(2 * self._pause_ms, _LONGEST_PAUSE_MS)

    def _opened(self) -> http.client.HTTPConnection:
        if self._connection is None:
            host = self._url.netloc.rpartition("@")[2]
            if self._url.scheme == "https":
                context = ssl.create_default_context()
                self._connection = http.client.HTTPSConnection(host, timeout=self._timeout_s, context=context)
            else:
                self._connection = http.client.HTTPConnection(host, timeout=self._timeout_s)
        return self._connection

    def _close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def stop(self) -> None:
        """See `Task.stop`."""
        self._close()


def _name_of(records: Sequence[SinkRecord]) -> str:
    first, last = records[0], records[-1]
    name = f"{first.original_topic or first.topic}/{first.kafka_partition}/{first.kafka_offset}"
    return name if len(records) == 1 else f"{name}-{last.kafka_offset}"


def _attributes(record: SinkRecord) -> dict[str, str]:
    """Headers of a CloudEvent, by the HTTP binding: what is not printable ASCII is encoded by percent."""
    return {
        f"ce-{header.key[3:]}": urllib.parse.quote(str(header.value), safe=_SAFE)
        for header in record.headers
        if header.key.startswith("ce_") and header.value is not None
    }


def _value(record: SinkRecord) -> bytes:
    return json.dumps(record.value, default=str, ensure_ascii=False).encode()


def _body(value: object) -> bytes:
    if isinstance(value, bytes):
        return value
    return value.encode() if isinstance(value, str) else json.dumps(value, default=str, ensure_ascii=False).encode()
