"""Limits of what a schema registry answers: size, and time in all."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from hayase.core.errors import SchemaRegistryError

if TYPE_CHECKING:
    import httpx2
    from confluent_kafka.schema_registry import SchemaRegistryClient

ANSWER_BYTES_MAX = 16 << 20
"""Of one answer. The largest schemas that are used have a few hundred kilobytes."""


def limit_answers(
    client: SchemaRegistryClient,
    timeout_s: float,
    max_bytes: int = ANSWER_BYTES_MAX,
    monotonic: Callable[[], float] = time.monotonic,
) -> None:
    """Have a client of a registry give up answers that are too large or come too slowly.

    The timeout of an HTTP client is that of one read: a byte now and then would keep it forever.

    Args:
        client: Confluent's.
        timeout_s: for an answer, from its first byte on.
        max_bytes: of an answer, as it came.
        monotonic: a clock.
    """
    import httpx2

    class Limited(httpx2.SyncByteStream):
        def __init__(self, stream: httpx2.SyncByteStream) -> None:
            self._stream = stream

        def __iter__(self) -> Iterator[bytes]:
            began, size = monotonic(), 0
            for part in self._stream:
                size += len(part)
                if size > max_bytes:
                    raise SchemaRegistryError(
                        "SCHEMA_REGISTRY_FAILED", f"the schema registry's answer has more than {max_bytes} bytes"
                    )
                if monotonic() - began > timeout_s:
                    raise SchemaRegistryError(
                        "SCHEMA_REGISTRY_FAILED",
                        f"the schema registry's answer took more than {timeout_s:g} s (schema.registry.timeout)",
                    )
                yield part

        def close(self) -> None:
            self._stream.close()

    def limit(response: httpx2.Response) -> None:
        response.stream = Limited(response.stream)  # type: ignore[arg-type] # the client asks synchronously

    session = client._rest_client.session  # there is no other way to its HTTP client
    session.event_hooks = {**session.event_hooks, "response": [*session.event_hooks["response"], limit]}
