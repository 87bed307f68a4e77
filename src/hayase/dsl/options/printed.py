"""`Printed`: how `KStream.print` writes records."""

from __future__ import annotations

import dataclasses
import sys
from dataclasses import dataclass
from os import PathLike, fspath
from pathlib import Path

from hayase.core.errors import TopologyError
from hayase.core.names import check_name
from hayase.dsl import functions
from hayase.topology.operators.functions import KeyValueMapper


@dataclass(frozen=True, slots=True)
class Printed:
    """Where and how records are printed; made by `to_sys_out` or `to_file`.

    Attributes:
        path: of the file, `None` for standard output.
        label: begins each line; `None`: the name of the node that sends the records.
        mapper: `(key, value)` to the line's text; `None`: `key, value`.
        name: of the node.

    Example:
        >>> Printed.to_sys_out().with_label("orders").printer("KSTREAM-SOURCE-0")("k", 1)
        [orders]: k, 1
    """

    path: str | None = None
    label: str | None = None
    mapper: KeyValueMapper | None = None
    name: str | None = None

    @classmethod
    def to_sys_out(cls) -> Printed:
        """Printing to the standard output of the process that runs the task."""
        return cls()

    @classmethod
    def to_file(cls, path: str | PathLike[str]) -> Printed:
        """Printing to the end of a file, which is created if it does not exist.

        Unlike Kafka Streams it is not emptied first: tasks share it.
        """
        if not isinstance(path, str | PathLike) or not fspath(path):
            raise TopologyError("INVALID_OPTION", f"to_file takes the path of a file, not {path!r}")
        return cls(fspath(path))

    def with_label(self, label: str) -> Printed:
        """A copy with another label."""
        return dataclasses.replace(self, label=label)

    def with_key_value_mapper(self, mapper: KeyValueMapper) -> Printed:
        """A copy with other text: what `mapper(key, value)` returns."""
        return dataclasses.replace(
            self, mapper=functions.callable_of(mapper, 2, "with_key_value_mapper", "(key, value)")
        )

    def with_name(self, name: str) -> Printed:
        """A copy with another name of the node."""
        return dataclasses.replace(self, name=check_name(name))

    def printer(self, node: str) -> Printer:
        """The action for records that a node sends."""
        return Printer(self.path, node if self.label is None else self.label, self.mapper)


@dataclass(frozen=True, slots=True)
class Printer:
    """Prints a record; a file gets whole lines, also where several processes write it."""

    path: str | None
    label: str
    mapper: KeyValueMapper | None

    def __call__(self, key: object, value: object) -> None:
        """Write one line."""
        text = f"{key}, {value}" if self.mapper is None else self.mapper(key, value)
        line = f"[{self.label}]: {text}\n"
        if self.path is None:
            sys.stdout.write(line)
            sys.stdout.flush()
            return
        with Path(self.path).open("ab", buffering=0) as file:
            file.write(line.encode("utf-8", "backslashreplace"))
