"""`DatagenSource`: records from templates, the same for the same seed."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Mapping
from typing import Any

from hayase.connect.config.config_def import ConfigDef, Importance, TypedConfig
from hayase.connect.config.types import ConfigType
from hayase.connect.config.validators import at_least, non_empty, parsed_by
from hayase.connect.contracts import ExactlyOnceSupport, Props, SourceConnector, SourceTask
from hayase.connect.model import Polled, SourceRecord
from hayase.connect.simple_connector import SimpleConnector
from hayase.core.errors import ConfigError

_WAIT_S = 0.1
_KINDS = ("sequence", "int", "float", "choice", "text", "boolean", "timestamp", "constant")
_LETTERS = "abcdefghijklmnopqrstuvwxyz"


def _definition() -> ConfigDef:
    return (
        ConfigDef()
        .define(
            "topic", ConfigType.STRING, validator=non_empty, importance=Importance.HIGH,
            documentation="Topic that the records go to.",
        )
        .define(
            "fields", ConfigType.STRING, validator=parsed_by(parse_fields, _ALLOWED), importance=Importance.HIGH,
            documentation="Fields of the value, as a JSON object: " + _ALLOWED,
        )
        .define(
            "key.field", ConfigType.STRING, None, None, Importance.MEDIUM,
            "Field whose value is the record's key; none unless given.",
        )
        .define(
            "records", ConfigType.LONG, -1, at_least(-1), Importance.MEDIUM,
            "How many records each task makes; -1: as many as it can.",
        )
        .define(
            "records.per.second", ConfigType.DOUBLE, 10.0, at_least(0), Importance.MEDIUM,
            "How many a second; 0: without a limit.",
        )
        .define("seed", ConfigType.LONG, 0, None, Importance.LOW, "The same seed makes the same records.")
        .define(
            "batch.size", ConfigType.INT, 1000, at_least(1), Importance.LOW, "How many records a poll gives at most.",
        )
    )  # fmt: skip


_ALLOWED = (
    "each value is an object with kind: sequence (start), int (min, max), float (min, max), choice (of), text (length)"
    ", boolean, timestamp, constant (value)"
)


def parse_fields(text: str) -> dict[str, dict[str, Any]]:
    """Fields by name.

    Raises:
        ConfigError: it is no JSON object of such fields.
    """
    try:
        fields: dict[str, dict[str, Any]] = json.loads(text)
    except ValueError as error:
        raise ConfigError("INVALID_SETTING", f"fields is no JSON: {error}", setting="fields") from None
    good = isinstance(fields, dict) and all(
        isinstance(each, dict) and each.get("kind") in _KINDS for each in fields.values()
    )
    if not good or not fields:
        raise ConfigError("INVALID_SETTING", f"fields is {text}; {_ALLOWED}", setting="fields")
    return fields


class DatagenSourceConnector(SimpleConnector, SourceConnector):
    """Makes records. Exactly once: the n-th record of a task is a function of the seed and n."""

    @classmethod
    def config(cls) -> ConfigDef:
        """The keys of the connector."""
        return _definition()

    def task_class(self) -> type[SourceTask]:
        """See `Connector.task_class`."""
        return DatagenSourceTask

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        """As many tasks as allowed, each with records of its own."""
        return [{**self.props, "task.number": str(number)} for number in range(max_tasks)]

    def exactly_once_support(self, props: Props) -> ExactlyOnceSupport:
        """Supported."""
        return ExactlyOnceSupport.SUPPORTED


class DatagenSourceTask(SourceTask):
    """Makes the records of one task."""

    def start(self, props: Props) -> None:
        """See `Task.start`."""
        config = TypedConfig(_definition(), props)
        self._topic = config.string("topic")
        self._fields = parse_fields(config.string("fields"))
        self._key = config.optional_string("key.field")
        self._count = config.int("records")
        self._rate = config.float("records.per.second")
        self._batch = config.int("batch.size")
        self._seed = config.int("seed")
        self._number = int(props["task.number"])
        self._partition = {"task": self._number}
        stored = self.context.offset_storage_reader.offset(self._partition)
        made = 0 if stored is None else stored["made"]
        assert isinstance(made, int)
        self._made = made
        self._begun, self._made_before = time.monotonic(), made

    def poll(self) -> Polled | None:
        """The records that are due."""
        count = self._batch if self._count < 0 else min(self._batch, self._count - self._made)
        if self._rate:
            due = int((time.monotonic() - self._begun) * self._rate) + 1 - (self._made - self._made_before)
            count = min(count, due)
        if count <= 0:
            time.sleep(min(_WAIT_S, 1 / self._rate if self._rate else _WAIT_S))
            return None
        first = self._made
        self._made += count
        return [self._record(number) for number in range(first, first + count)]

    def _record(self, number: int) -> SourceRecord:
        values = random.Random(f"{self._seed}/{self._number}/{number}")
        value = {name: _made(field, number, values) for name, field in self._fields.items()}
        return SourceRecord(
            source_partition=self._partition,
            source_offset={"made": number + 1},
            topic=self._topic,
            key=None if self._key is None else value.get(self._key),
            value=value,
        )

    def stop(self) -> None:
        """See `Task.stop`."""


def _made(field: Mapping[str, Any], number: int, values: random.Random) -> object:
    match field["kind"]:
        case "sequence":
            return field.get("start", 0) + number
        case "int":
            return values.randint(field.get("min", 0), field.get("max", 100))
        case "float":
            return round(values.uniform(field.get("min", 0.0), field.get("max", 1.0)), 6)
        case "choice":
            return values.choice(field["of"])
        case "text":
            return "".join(values.choices(_LETTERS, k=field.get("length", 8)))
        case "boolean":
            return values.random() < 0.5
        case "timestamp":
            return field.get("start", 0) + number * field.get("step", 1000)
        case _:
            return field.get("value")
