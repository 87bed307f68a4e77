"""Signals: what a user asks of a running capture, by a row in a table of the database or a record of a topic."""

from __future__ import annotations

import json
import logging
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from hayase.connect.model import RawKeyValue
from hayase.connect.postgres.pgoutput import Insert, Relation
from hayase.core.decoding import decode_json

_LOG = logging.getLogger(__name__)
_COLUMNS = 3
_LOOK_S = 0.5
"""How often the topic of signals is read."""
ReadTopic = Callable[[str, int], tuple[list[RawKeyValue], int]]


@dataclass(frozen=True, slots=True)
class Signal:
    """A signal.

    Attributes:
        id: which the user gave it.
        kind: `execute-snapshot`, `stop-snapshot`, `log`.
        data: what it is about.
    """

    id: str
    kind: str
    data: Mapping[str, object]

    @classmethod
    def parse(cls, signal_id: str | None, kind: str | None, data: str | None) -> Signal | None:
        """Read a signal; one that cannot be read is logged and left out, since its row cannot be corrected any more."""
        try:
            parsed = json.loads(data or "{}")
            if not isinstance(parsed, dict):
                raise ValueError("an object is expected")
        except ValueError as error:
            _LOG.warning("the signal %r (%s) is left out, its data are no JSON: %s", signal_id, kind, error)
            return None
        return cls(signal_id or "", kind or "", parsed)

    def texts(self, name: str) -> list[str]:
        """A list of texts in the data; empty if it is absent."""
        given = self.data.get(name)
        return [str(each) for each in given] if isinstance(given, list) else []


class SignalTable:
    """The table of the database that users write signals to.

    Attributes:
        left_out: how many rows could not be read.
        oids: by which the stream names the table.

    Args:
        full_name: `schema.table`; `None`: there is none.
    """

    def __init__(self, full_name: str | None) -> None:
        self._full_name = full_name
        self.oids: set[int] = set()
        self._signals: list[Signal] = []
        self.left_out = 0

    def look_at(self, relation: Relation) -> None:
        """See whether a relation of the stream is the table; its columns are known by place, as in Debezium."""
        is_it = f"{relation.namespace}.{relation.name}" == self._full_name and len(relation.columns) >= _COLUMNS
        (self.oids.add if is_it else self.oids.discard)(relation.oid)

    def take_insert(self, change: Insert) -> None:
        """Take a new row of the table."""
        signal = Signal.parse(*(None if cell is None else str(cell) for cell in change.new[:_COLUMNS]))
        if signal is None:
            self.left_out += 1
        else:
            self._signals.append(signal)

    def ask_for_snapshot(self, table: str) -> None:
        """Have a table read again, as a user would."""
        self._signals.append(Signal("", "execute-snapshot", {"data-collections": [table]}))

    def take(self) -> list[Signal]:
        """The signals since the last call."""
        signals, self._signals = self._signals, []
        return signals


class _TopicSignal(msgspec.Struct):
    """The value of a record, as in Debezium."""

    type: str
    id: str | None = None
    data: dict[str, object] = {}


class SignalTopic:
    """The topic of the log that users write signals to.

    Attributes:
        offset: behind the last record that was read.
        left_out: how many records could not be read.

    Args:
        topic: its name.
        prefix: the key of the records for this connector; others are of other connectors.
        offset: where to go on.
        read: reads the topic.
        monotonic: seconds of a clock that only goes forward.
    """

    def __init__(
        self,
        topic: str,
        prefix: str,
        offset: int,
        read: ReadTopic,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._topic = topic
        self._key = prefix.encode()
        self._read = read
        self._monotonic = monotonic
        self._next_s = monotonic()
        self.offset = offset
        self.left_out = 0

    def take(self) -> list[Signal]:
        """The signals since the last call; looks at the topic now and then only."""
        now = self._monotonic()
        if now < self._next_s:
            return []
        self._next_s = now + _LOOK_S
        records, self.offset = self._read(self._topic, self.offset)
        signals = []
        for key, value in records:
            if key != self._key or value is None:
                continue
            try:
                found = decode_json(value, as_type=_TopicSignal)
            except msgspec.MsgspecError as error:
                self.left_out += 1
                _LOG.warning("a record of %s is no signal and is left out: %s; it is %.200r", self._topic, error, value)
                continue
            signals.append(Signal(found.id or "", found.type, found.data))
        return signals


class TableRequest(msgspec.Struct, frozen=True):
    """A table whose rows are to be read.

    Attributes:
        table: `schema.table`.
        condition: which rows, as SQL; `None`: all.
    """

    table: str
    condition: str | None = None


@dataclass(slots=True)
class IncrementalProgress:
    """Tables that are to be read while changes go on, and how far the first of them was read.

    Attributes:
        requests: in order; the first one is being read.
        upper: the last key that was published of it; `None`: none was.
        signal_offset: behind the last signal of the topic that is in this; 0: none is.
        left_out: how many signals had a type or a table that is not known.
    """

    requests: list[TableRequest] = field(default_factory=list)
    upper: tuple[str, ...] | None = None
    signal_offset: int = 0
    left_out: int = 0

    def to_offset(self) -> dict[str, object] | None:
        """The offset as it is stored; `None`: there is nothing to keep."""
        if not self.requests and not self.signal_offset:
            return None
        offset: dict[str, object] = {
            "requests": msgspec.json.encode(self.requests).decode(),
            "upper": None if self.upper is None else msgspec.json.encode(self.upper).decode(),
        }
        return {**offset, "signal_offset": self.signal_offset} if self.signal_offset else offset

    @classmethod
    def from_offset(cls, offset: Mapping[str, object] | None) -> IncrementalProgress:
        """Read a stored offset."""
        if not offset or "requests" not in offset:
            return cls()
        requests = decode_json(str(offset["requests"]), as_type=list[TableRequest])
        upper = offset.get("upper")
        position = offset.get("signal_offset")
        return cls(
            requests,
            None if upper is None else decode_json(str(upper), as_type=tuple[str, ...]),
            position if isinstance(position, int) else 0,
        )

    def apply(self, signal: Signal, tables: Sequence[str], position: str) -> bool:
        """Do what a signal says; whether there is something else to read now.

        Args:
            signal: what is asked.
            tables: all that are captured.
            position: of the stream, for the signal `log`.
        """
        match signal.kind:
            case "execute-snapshot":
                return self._execute(signal, tables)
            case "stop-snapshot":
                return self._stop(signal)
            case "log":
                _LOG.warning("signal %s: %s", signal.id, str(signal.data.get("message", "")).replace("{}", position))
            case _:
                self.left_out += 1
                _LOG.warning(
                    "the signal %r has type %r and is left out; execute-snapshot, stop-snapshot and log are known",
                    signal.id, signal.kind,
                )  # fmt: skip
        return False

    def _execute(self, signal: Signal, tables: Sequence[str]) -> bool:
        conditions: dict[str, str] = {}
        given = signal.data.get("additional-conditions")
        for each in given if isinstance(given, list) else ():
            if isinstance(each, dict) and each.get("filter"):
                conditions[str(each.get("data-collection"))] = str(each["filter"])
        for_all = signal.data.get("additional-condition")
        waiting = {request.table for request in self.requests}
        added = []
        for pattern in signal.texts("data-collections"):
            matched = [table for table in tables if _matches(pattern, table)]
            if not matched:
                self.left_out += 1
                _LOG.warning("signal %s: no table that is captured matches %r", signal.id, pattern)
            for table in matched:
                if table not in waiting:
                    waiting.add(table)
                    by_pattern = conditions.get(table, conditions.get(pattern))
                    added.append(TableRequest(table, by_pattern or (str(for_all) if for_all else None)))
        self.requests += added
        return bool(added)

    def _stop(self, signal: Signal) -> bool:
        patterns = signal.texts("data-collections")
        stays = [
            request
            for request in self.requests
            if patterns and not any(_matches(pattern, request.table) for pattern in patterns)
        ]
        changed = stays != self.requests
        if changed and stays[:1] != self.requests[:1]:
            self.upper = None
        self.requests = stays
        return changed


def _matches(pattern: str, table: str) -> bool:
    if pattern == table:
        return True
    try:
        return re.fullmatch(pattern, table, re.IGNORECASE) is not None
    except re.error:
        return False
