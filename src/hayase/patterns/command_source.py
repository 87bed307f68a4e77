"""`CommandSource`: requests as commands for an aggregate; each is answered with its reply."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import queue
import re
import time
import urllib.parse
import uuid
from collections.abc import Mapping
from dataclasses import dataclass

import msgspec
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response

from hayase.connect.config.config_def import ConfigDef, ConfigValue, Importance, TypedConfig
from hayase.connect.config.types import ConfigType
from hayase.connect.config.validators import at_least, matching
from hayase.connect.contracts import ExactlyOnceSupport, Props, SourceTask
from hayase.connect.exceptions import RetriableError
from hayase.connect.http.request_listener import RequestConnector, RequestTask, define_listener, refusal
from hayase.connect.model import ConnectHeader, Polled, SourceRecord
from hayase.connect.schema import STRING_SCHEMA
from hayase.core.errors import SerializationError
from hayase.patterns import cloud_events
from hayase.patterns.command_reading import check_attributes, check_command_id
from hayase.patterns.reactions import check_aggregate_id
from hayase.patterns.replies import EventPosition, Reply, Status, decode_reply
from hayase.serde import partition_for_key

_IDLE_S, _WAITING_S = 0.1, 0.01
_BATCH = 500
_ID_HEADER = "idempotency-key"
_OF_SAGAS = re.compile(r".+:(action|undo):[0-9]+", re.DOTALL)
"""An aggregate answers an id once: a request with that of a step would get ahead of the saga, and be taken for it."""
_PARTITION = 0
"""Of the replies: every topic has it, and a task knows only its own commands."""
_CONVERTERS = {
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "value.converter": "org.apache.kafka.connect.storage.StringConverter",
    "header.converter": "org.apache.kafka.connect.storage.StringConverter",
}
_STATUSES: Mapping[Status, int] = {"accepted": 200, "rejected": 422, "conflict": 409, "invalid": 400, "failed": 500}
_TAKEN = (
    cloud_events.SOURCE, cloud_events.TIME, cloud_events.CORRELATION, cloud_events.CAUSATION,
    cloud_events.EXPECTED_VERSION, cloud_events.DATA_VERSION,
)  # fmt: skip
"""Attributes that are taken from headers of the request. Not where the reply goes, nor what is undone."""
CommandKey = tuple[str, str]
"""Aggregate id and command id."""


def _definition() -> ConfigDef:
    own = ConfigDef().define(
        "aggregate", ConfigType.STRING, validator=matching("[A-Za-z][A-Za-z0-9._-]*", "give the name of an aggregate"),
        importance=Importance.HIGH,
        documentation="Name of the aggregate that gets the commands: they go to <aggregate>-commands, and the replies "
        "in <aggregate>-replies are the answers.",
    ).define(
        "allowed.types", ConfigType.LIST, [], None, Importance.MEDIUM,
        "Types of commands that are taken; others are answered 403, and go nowhere. Empty: all that the aggregate has, "
        "which answers others itself (400).",
    )  # fmt: skip
    signed = (
        "lines of the timestamp, the method, the path behind that of the connector, each header Idempotency-Key and "
        "ce-… as name:value, in lower case and sorted, and an empty one, and of the body"
    )
    return define_listener(own, signed).define(
        "answer.timeout.ms", ConfigType.LONG, 30_000, at_least(1), Importance.LOW,
        "How long a request waits for the reply; then it is answered 504, and may be repeated.",
    )  # fmt: skip


def command_source(aggregate: str, listener: Mapping[str, str]) -> dict[str, str]:
    """The configuration of a connector that takes commands by HTTP.

    Args:
        aggregate: its name.
        listener: `webhook.port`, and more of the connector's keys.

    Example:
        >>> config = command_source("order", {"webhook.port": "9090"})
        >>> config["connector.class"], config["aggregate"], config["webhook.port"]
        ('CommandSource', 'order', '9090')
    """
    return {"connector.class": "CommandSource", "aggregate": aggregate, **_CONVERTERS, **listener}


class CommandSourceConnector(RequestConnector):
    """Makes a command of each request, and answers with its reply. A command counts once, by its id."""

    @classmethod
    def config(cls) -> ConfigDef:
        """The keys of the connector."""
        return _definition()

    def task_class(self) -> type[SourceTask]:
        """See `Connector.task_class`."""
        return CommandSourceTask

    def exactly_once_support(self, props: Props) -> ExactlyOnceSupport:
        """Supported: the aggregate takes a command id once."""
        return ExactlyOnceSupport.SUPPORTED

    def validate(self, props: Props) -> list[ConfigValue]:
        """See `Connector.validate`; commands are JSON as the aggregate reads it, so converters must not change them."""
        found = super().validate(props)
        aggregate = next(value for value in found if value.name == "aggregate")
        for name, needed in _CONVERTERS.items():
            given = props.get(name, "")
            if given.rpartition(".")[2] != "StringConverter":
                aggregate.errors.append(f"{name} is {given or 'that of the worker'}; commands need {needed}")
        return found


@dataclass(slots=True)
class _Asked:
    """A command whose reply has not come yet."""

    aggregate_id: str
    attributes: dict[str, str]
    body: str
    answer: asyncio.Future[Reply]
    waiting: int = 1
    """How many requests wait for it: a repeat waits for the same reply."""

    @property
    def key(self) -> CommandKey:
        return self.aggregate_id, self.attributes[cloud_events.ID]


class CommandSourceTask(RequestTask):
    """Takes commands, and answers with their replies."""

    def start(self, props: Props) -> None:
        """See `Task.start`.

        Raises:
            RetriableError: `UNKNOWN_TOPIC`: the topics of the aggregate are not there, since its application has not
                started yet.
        """
        config = TypedConfig(_definition(), props)
        self._config = config
        self._allowed = config.list("allowed.types")
        name = config.string("aggregate")
        self._commands, self._replies, self._events = f"{name}-commands", f"{name}-replies", f"{name}-events"
        for topic in (self._commands, self._replies, self._events):
            if not self.context.end_offsets(topic):
                raise RetriableError(
                    "UNKNOWN_TOPIC",
                    f"topic {topic!r} does not exist yet: the application of {name!r} makes it when it starts",
                    topic=topic,
                )
        self._queue: queue.Queue[_Asked] = queue.Queue()
        self._asked: dict[CommandKey, _Asked] = {}  # of the event loop
        self._open: dict[CommandKey, _Asked] = {}  # of the task's thread
        self._offset, self._count = -1, 0
        self._taken: list[_Asked] = []  # from the queue, and not handed out yet
        self.listen(config, ["", "/{subject}/{type}"], self._receive, signed_content)

    # in the event loop

    async def _receive(self, request: Request, body: bytes) -> Response:
        try:
            attributes, text = _attributes(request), body.decode()
            if self._allowed and attributes[cloud_events.TYPE] not in self._allowed:
                return self.listener.refused(
                    403,
                    f"commands of type {attributes[cloud_events.TYPE]!r:.200} are not taken here; allowed are "
                    f"{', '.join(self._allowed)}",
                )
            attributes[cloud_events.REQUEST_DIGEST] = _digest(attributes[cloud_events.TYPE], json.loads(text))
            check_aggregate_id(attributes[cloud_events.SUBJECT])
            check_command_id(attributes[cloud_events.ID])
            check_attributes({f"ce-{name}": value for name, value in attributes.items()})
            if _OF_SAGAS.fullmatch(attributes[cloud_events.ID]):
                raise _IncompleteError(
                    "ids that end in :action: or :undo: and a number are those of sagas; take others"
                )
            if self._config.password("hmac.secret") is not None and _command_id(request) is None:
                raise _IncompleteError("a signed command needs an id (Idempotency-Key or ce-id): else it counts again")
        except (_IncompleteError, SerializationError) as error:
            return self.listener.refused(400, str(error))
        except (ValueError, RecursionError):
            return self.listener.refused(400, "the body is no JSON")
        asked = _Asked(attributes[cloud_events.SUBJECT], attributes, text, asyncio.get_running_loop().create_future())
        if (same := self._asked.get(asked.key)) is not None:
            same.waiting, asked = same.waiting + 1, same
        elif len(self._asked) >= self._config.int("queue.max"):
            return self.listener.refused(429, "too many commands wait; try again later")
        else:
            self._asked[asked.key] = asked
            self._queue.put_nowait(asked)
        return await self._answer(asked, attributes)

    async def _answer(self, asked: _Asked, attributes: dict[str, str]) -> Response:
        timeout_ms = self._config.int("answer.timeout.ms")
        try:
            reply = await asyncio.wait_for(asyncio.shield(asked.answer), timeout_ms / 1000)
        except (TimeoutError, asyncio.CancelledError):
            return refusal(
                504, f"no reply within {timeout_ms} ms; whether the command counts is unknown: repeat it with its id"
            )
        finally:
            asked.waiting -= 1
            if not asked.waiting and self._asked.get(asked.key) is asked:
                del self._asked[asked.key]
        if not _answers(reply, attributes):
            return self.listener.refused(
                422,
                f"the id {reply.command_id!r} is that of another {reply.command_type} for {reply.aggregate_id!r}, so "
                f"this {attributes[cloud_events.TYPE]} was not done: each command needs an id of its own",
            )
        return Response(msgspec.json.encode(reply), _STATUSES[reply.status], media_type="application/json")

    # in the thread of the task

    def poll(self) -> Polled | None:
        """The commands that have come, after the replies have been looked at; waits a little where there are none."""
        self._read_replies()
        with contextlib.suppress(queue.Empty):
            if not self._taken:
                self._taken.append(self._queue.get(timeout=_WAITING_S if self._open else _IDLE_S))
            while len(self._taken) < _BATCH:
                self._taken.append(self._queue.get_nowait())
        if not self._taken:
            return None
        if not self._open:  # before the commands are written, so that no reply is missed
            self._offset = self.context.end_offsets(self._replies)[_PARTITION]
        asked, self._taken = self._taken, []
        self._open.update((each.key, each) for each in asked)
        return [self._record(each) for each in asked]

    def _record(self, asked: _Asked) -> SourceRecord:
        self._count += 1
        now_ms = time.time_ns() // 1_000_000
        headers = cloud_events.to_headers({
            cloud_events.SOURCE: f"/{self.context.connector}",
            cloud_events.TIME: cloud_events.time_text(now_ms),
            cloud_events.CORRELATION: asked.attributes[cloud_events.ID],
            **asked.attributes,
            cloud_events.REPLY_TOPIC: self._replies,
            cloud_events.REPLY_PARTITION: _PARTITION,
        })  # fmt: skip
        return SourceRecord(
            source_partition={"commands": self.context.connector},
            source_offset={"received": self._count},
            topic=self._commands,
            key=asked.aggregate_id,
            key_schema=STRING_SCHEMA,
            value=asked.body,
            value_schema=STRING_SCHEMA,
            timestamp_ms=now_ms,
            headers=tuple(ConnectHeader(name, (value or b"").decode(), STRING_SCHEMA) for name, value in headers),
        )

    def _read_replies(self) -> None:
        if not self._open:
            return
        self._open = {key: each for key, each in self._open.items() if each.waiting}
        records, self._offset = self.context.read_partition(self._replies, _PARTITION, self._offset)
        found = []
        for _, value in records:
            try:
                reply = decode_reply(value or b"")
            except msgspec.MsgspecError:  # a record of others in the topic
                continue
            asked = self._open.pop((reply.aggregate_id, reply.command_id), None)
            if asked is not None:
                found.append((asked, reply))
        if found:
            topic_id, ends = self.context.topic_id(self._events) or "", self.context.end_offsets(self._events)
            answers = [(asked.answer, _with_position(reply, self._events, topic_id, ends)) for asked, reply in found]
            self.listener.call(lambda: _answer_all(answers))


class _IncompleteError(Exception):
    """A request that is no command."""


def _attributes(request: Request) -> dict[str, str]:
    """The attributes of the command in a request: of its path, and of the headers of a CloudEvent in binary mode."""
    headers = request.headers
    found = {name: value for name in _TAKEN if (value := _header(headers, name)) is not None}
    for name, missing in (
        (cloud_events.SUBJECT, "for which aggregate it is: give PATH/{id}/{type}, or the header ce-subject"),
        (cloud_events.TYPE, "what type the command has: give PATH/{id}/{type}, or the header ce-type"),
    ):
        value = request.path_params.get(name) or _header(headers, name)
        if not value:
            raise _IncompleteError(f"the request does not say {missing}")
        found[name] = value
    found[cloud_events.ID] = _command_id(request) or str(uuid.uuid4())
    return found


def _command_id(request: Request) -> str | None:
    return _header(request.headers, cloud_events.ID) or request.headers.get(_ID_HEADER) or None


def _digest(command_type: str, fields: object) -> str:
    """Distinguishes a repeat from another command of the same id: of its fields, however they are written."""
    text = json.dumps([command_type, fields], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _answers(reply: Reply, attributes: Mapping[str, str]) -> bool:
    """Whether a reply is that to this command, and not to another one of the same id."""
    if reply.request_digest:
        return reply.request_digest == attributes[cloud_events.REQUEST_DIGEST]
    return reply.command_type in ("", attributes[cloud_events.TYPE])  # it came another way than by HTTP


def signed_content(request: Request, path: str, timestamp: str, body: bytes) -> bytes:
    """What the signature of a command covers: all that the command is made of.

    Lines of the timestamp, the method, the path behind that of the connector, and each header `idempotency-key` and
    `ce-…` as `name:value`, sorted; an empty line; the body.
    """
    headers = sorted(
        f"{name}:{value}" for name, value in request.headers.items() if name.startswith("ce-") or name == _ID_HEADER
    )
    lines = [timestamp, request.method, urllib.parse.quote(path), *headers, "", ""]
    return "\n".join(lines).encode("latin-1") + body


def _header(headers: Headers, name: str) -> str | None:
    """An attribute of a CloudEvent; the HTTP binding encodes by percent what is not printable ASCII."""
    value = headers.get(f"ce-{name}")
    return None if value is None else urllib.parse.unquote(value)


def _with_position(reply: Reply, events_topic: str, topic_id: str, ends: list[int]) -> Reply:
    if not reply.accepted:
        return reply
    partition = partition_for_key(reply.aggregate_id.encode(), len(ends))
    return msgspec.structs.replace(reply, position=EventPosition(events_topic, partition, ends[partition], topic_id))


def _answer_all(answers: list[tuple[asyncio.Future[Reply], Reply]]) -> None:
    for future, reply in answers:
        if not future.done():
            future.set_result(reply)
