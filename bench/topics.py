"""Where the topics of a run are: what the harness needs of a log, Kafka or embedded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol


class Progress(Protocol):
    """How far one application is, seen from outside.

    Attributes:
        input_end: records in the input.
    """

    input_end: int

    def processed(self) -> int:
        """Input records below the application's committed offsets."""
        ...

    def output_end(self) -> int:
        """Sum of the ends of the output, as a `read_committed` reader sees it. Never falls."""
        ...


class Topics(Protocol):
    """A log of topics.

    Attributes:
        arguments: tell an application where the log is.
    """

    arguments: list[str]

    def create(self, name: str, partitions: int) -> None:
        """Create a topic that can be written at once."""
        ...

    def delete(self, prefix: str) -> None:
        """Delete every topic whose name begins so."""
        ...

    def load(self, name: str, records: Iterable[tuple[str, str | bytes, int]]) -> None:
        """Write keys, values and timestamps, partitioned as Kafka's Java clients do; durable on return."""
        ...

    def progress(self, application_id: str, source: str, target: str) -> Progress:
        """Watches an application."""
        ...

    def read(self, name: str) -> Iterator[tuple[bytes, bytes | None]]:
        """Keys and values of all committed records, each partition in order of offsets."""
        ...

    def close(self) -> None:
        """Let go of everything."""
        ...
