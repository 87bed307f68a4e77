"""Sending commands to an aggregate, from any process, and receiving the replies."""

from __future__ import annotations

import asyncio
import os
import threading
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass
from datetime import timedelta
from types import TracebackType
from typing import Generic, Self

from hayase.core.config import StreamsConfig
from hayase.core.errors import HayaseError
from hayase.core.records import Headers
from hayase.log.config import log_config
from hayase.log.protocol import OutputBatch
from hayase.patterns import cloud_events
from hayase.patterns.command_reading import check_attributes, check_command_id, command_headers
from hayase.patterns.decider import C
from hayase.patterns.reactions import AggregateCommand, CommandTarget
from hayase.patterns.replies import Reply
from hayase.patterns.reply_listener import ReplyListener, WaitKey

_TIMEOUT = timedelta(seconds=30)


class CommandOutcomeUnknownError(HayaseError):
    """No reply came in time: whether the command counts is unknown. Send it again under the same id."""

    @property
    def command_ids(self) -> tuple[str, ...]:
        """The ids of the commands without a reply."""
        return tuple(str(self.context["command_ids"]).split(", "))


@dataclass(frozen=True, slots=True)
class _Outgoing:
    command: AggregateCommand
    id: str
    headers: Headers

    @property
    def wait_key(self) -> WaitKey:
        return self.command.aggregate_id, self.id


class CommandClient(Generic[C]):
    """Sends commands to one aggregate; made by `PatternsApp.commands`, or for a `CommandTarget` by itself.

    From any process that reaches the log, on the embedded log and on Kafka. Threads may share it; after a fork it
    connects again. A command that is sent again under the same id counts once, and gets the same reply.

    Args:
        target: the aggregate.
        config: settings that say where the log is.
        source: the sender, as a URI reference; recorded with commands and events.

    Example:
        >>> reply = app.commands("order").send("17", Place("book"), expected_version=0)  # doctest: +SKIP
        >>> reply.status, reply.version  # doctest: +SKIP
        ('accepted', 1)
    """

    def __init__(
        self, target: CommandTarget[C], config: StreamsConfig | Mapping[str, object], *, source: str = "/client"
    ) -> None:
        if not isinstance(config, StreamsConfig):
            config = StreamsConfig({"application.id": "hayase-commands", **config})
        self._target = target
        if target.keys is not None:
            target.keys.bind(config)
        self._log = log_config(config)
        self._source = source
        self._lock = threading.Lock()
        self._listener: ReplyListener | None = None
        self._of_parents: list[ReplyListener] = []
        """Connections that belong to the process that forked this one; to close them here would hurt it."""

    def send(
        self,
        aggregate_id: str,
        command: C,
        *,
        expected_version: int | None = None,
        timeout: timedelta = _TIMEOUT,
        command_id: str | None = None,
        correlation_id: str | None = None,
        causation_id: str | None = None,
    ) -> Reply:
        """Send a command and wait for its reply.

        Args:
            aggregate_id: which aggregate.
            command: what it is to do.
            expected_version: the version that it must have, else the reply is a `conflict`; 0: it must be new.
            timeout: how long to wait.
            command_id: by which a repeat is recognized; default: a new UUID.
            correlation_id: what the command belongs to; default: its own id.
            causation_id: what caused it.

        Raises:
            CommandOutcomeUnknownError: `COMMAND_OUTCOME_UNKNOWN`: no reply within the timeout.
            SerializationError: it is no command of the aggregate, or its ids are too long.
            LogError: the log cannot be reached; whether the command is in it is unknown.
        """
        listener = self._connected()
        outgoing = self._outgoing(
            aggregate_id, command, listener, expected_version, command_id, correlation_id, causation_id
        )
        return self._send(listener, [outgoing], timeout)[0]

    def send_nowait(
        self,
        aggregate_id: str,
        command: C,
        *,
        expected_version: int | None = None,
        command_id: str | None = None,
        correlation_id: str | None = None,
        causation_id: str | None = None,
    ) -> str:
        """Send a command and return its id when the log has it; the reply is written, and not waited for."""
        listener = self._connected()
        outgoing = self._outgoing(
            aggregate_id, command, listener, expected_version, command_id, correlation_id, causation_id
        )
        listener.append(self._batch([outgoing]))
        return outgoing.id

    def send_many(self, commands: Iterable[tuple[str, C]], *, timeout: timedelta = _TIMEOUT) -> list[Reply]:
        """Send `(aggregate id, command)` pairs with one write; their replies in the same order.

        Commands of one aggregate are decided in this order.

        Raises:
            CommandOutcomeUnknownError: not all replies came within the timeout; it has the ids of the others.
        """
        listener = self._connected()
        return self._send(listener, [self._outgoing(key, each, listener) for key, each in commands], timeout)

    async def send_async(
        self,
        aggregate_id: str,
        command: C,
        *,
        expected_version: int | None = None,
        timeout: timedelta = _TIMEOUT,
        command_id: str | None = None,
        correlation_id: str | None = None,
        causation_id: str | None = None,
    ) -> Reply:
        """As `send`, for asyncio."""
        listener = await asyncio.to_thread(self._connected)
        outgoing = self._outgoing(
            aggregate_id, command, listener, expected_version, command_id, correlation_id, causation_id
        )
        return (await self._send_async(listener, [outgoing], timeout))[0]

    async def send_many_async(self, commands: Iterable[tuple[str, C]], *, timeout: timedelta = _TIMEOUT) -> list[Reply]:
        """As `send_many`, for asyncio."""
        listener = await asyncio.to_thread(self._connected)
        outgoing = [self._outgoing(key, each, listener) for key, each in commands]
        return await self._send_async(listener, outgoing, timeout)

    def close(self) -> None:
        """Let go of connections; what is still waited for ends with an error."""
        with self._lock:
            listener, self._listener = self._listener, None
        if listener is not None and listener.process_id == os.getpid():
            listener.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _connected(self) -> ReplyListener:
        with self._lock:
            if self._listener is not None and self._listener.process_id != os.getpid():
                self._of_parents.append(self._listener)
                self._listener = None
            if self._listener is None:
                self._listener = ReplyListener(self._log, self._target.replies_topic, self._target.events_topic)
            return self._listener

    def _outgoing(
        self,
        aggregate_id: str,
        command: C,
        listener: ReplyListener,
        expected_version: int | None = None,
        command_id: str | None = None,
        correlation_id: str | None = None,
        causation_id: str | None = None,
    ) -> _Outgoing:
        made, command_id = self._target.command(aggregate_id, command), command_id or str(uuid.uuid4())
        check_command_id(command_id)
        check_attributes({"source": self._source, "correlation_id": correlation_id, "causation_id": causation_id})
        more: dict[str, str | int | None] = {
            cloud_events.EXPECTED_VERSION: expected_version,
            cloud_events.CORRELATION: correlation_id or command_id,
            cloud_events.CAUSATION: causation_id,
            cloud_events.REPLY_TOPIC: self._target.replies_topic,
            cloud_events.REPLY_PARTITION: listener.reply_partition,
        }
        return _Outgoing(made, command_id, command_headers(made, command_id, self._source, _now_ms(), more))

    def _batch(self, outgoing: Sequence[_Outgoing]) -> OutputBatch:
        return OutputBatch(
            self._target.commands_topic,
            [each.command.aggregate_id.encode() for each in outgoing],
            [each.command.data for each in outgoing],
            [_now_ms()] * len(outgoing),
            None,
            [each.headers for each in outgoing],
        )

    def _send(self, listener: ReplyListener, outgoing: list[_Outgoing], timeout: timedelta) -> list[Reply]:
        if not outgoing:
            return []
        keys = [each.wait_key for each in outgoing]
        futures = listener.expect(keys)
        try:
            listener.append(self._batch(outgoing))
            wait(futures, timeout.total_seconds())
            return self._replies(outgoing, futures, timeout)
        finally:
            listener.forget(keys, futures)

    async def _send_async(self, listener: ReplyListener, outgoing: list[_Outgoing], timeout: timedelta) -> list[Reply]:
        if not outgoing:
            return []
        keys = [each.wait_key for each in outgoing]
        futures = await asyncio.to_thread(listener.expect, keys)
        try:
            await asyncio.to_thread(listener.append, self._batch(outgoing))
            await asyncio.wait(map(asyncio.wrap_future, futures), timeout=timeout.total_seconds())
            return self._replies(outgoing, futures, timeout)
        finally:
            listener.forget(keys, futures)

    def _replies(
        self, outgoing: Sequence[_Outgoing], futures: Sequence[Future[Reply]], timeout: timedelta
    ) -> list[Reply]:
        unknown = [each.id for each, future in zip(outgoing, futures, strict=True) if not future.done()]
        if unknown:
            raise CommandOutcomeUnknownError(
                "COMMAND_OUTCOME_UNKNOWN",
                f"no reply within {timeout} to {len(unknown)} of {len(outgoing)} commands: whether they count is "
                "unknown. Send them again under the same ids (command_id=…); a command counts once",
                aggregate=self._target.name,
                command_ids=", ".join(unknown),
            )
        return [future.result() for future in futures]


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
