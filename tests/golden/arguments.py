"""What the arguments of a golden case name: serdes, functions, timestamp extractors, windows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.golden.cases import Unsupported
from tests.golden.functions import UserError, evaluate

from hayase.core.records import RecordContext, Windowed
from hayase.core.windows import SessionWindows, SlidingWindows, TimeWindows, UnlimitedWindows
from hayase.processor.timestamps import (
    TimestampExtractor,
    callable_timestamp,
    field_timestamp,
    record_timestamp,
    wall_clock_timestamp,
)
from hayase.serde import Serde, Serdes, SessionWindowedSerde, TimeWindowedSerde

Function = Callable[..., Any]


def serde_of(name: Any) -> Serde[Any] | None:
    """The serde that a case names."""
    match name:
        case None:
            return None
        case "string":
            return Serdes.string()
        case "long":
            return Serdes.long()
        case "int":
            return Serdes.integer()
        case "double":
            return Serdes.double()
        case "json":
            return Serdes.json(sort_fields=True)
        case {"time_windowed": inner, "size_ms": size_ms}:
            made = serde_of(inner)
            assert made is not None
            return TimeWindowedSerde(made, size_ms)
        case {"session_windowed": inner}:
            made = serde_of(inner)
            assert made is not None
            return SessionWindowedSerde(made)
    raise Unsupported(f"serde {name}")


def plain(key: Any) -> Any:
    """A key as expressions see it: a windowed one is an object."""
    if isinstance(key, Windowed):
        return {"key": plain(key.key), "start": key.window.start_ms, "end": key.window.end_ms}
    return key


def of_key_value(expression: Any) -> Function:
    """A function of key and value."""
    return lambda key, value: evaluate(expression, {"key": plain(key), "value": value})


def predicate_of(expression: Any) -> Function:
    """A predicate: it holds if the expression is exactly true."""
    return lambda key, value: evaluate(expression, {"key": plain(key), "value": value}) is True


def joiner_of(expression: Any) -> Function:
    """A joiner of key, left and right."""
    return lambda key, left, right: evaluate(expression, {"key": plain(key), "left": left, "right": right})


def reducer_of(expression: Any) -> Function:
    """A function of aggregate and value."""
    return lambda agg, value: evaluate(expression, {"agg": agg, "value": value})


def aggregator_of(expression: Any) -> Function:
    """An aggregator of key, value and aggregate."""
    return lambda key, value, agg: evaluate(expression, {"key": plain(key), "value": value, "agg": agg})


def merger_of(expression: Any) -> Function:
    """A merger of sessions."""
    return lambda key, left, right: evaluate(expression, {"key": plain(key), "left": left, "right": right})


def extractor_of(args: Any) -> TimestampExtractor | None:
    """The timestamp extractor that a case names."""
    match args:
        case None:
            return None
        case {"type": "field", "path": path, "otherwise": "negative"}:
            return field_timestamp(path, on_invalid="skip")
        case {"type": "field", "path": path, "otherwise": otherwise}:
            return callable_timestamp(_field_extractor(path, otherwise), on_invalid="skip")
        case {"type": "wallclock"}:
            return wall_clock_timestamp()
        case {"type": "fail_on_invalid"}:
            return record_timestamp("fail")
        case {"type": "log_and_skip"}:
            return record_timestamp("skip")
        case {"type": "use_partition_time"}:
            return record_timestamp("partition_time")
    raise Unsupported(f"timestamp extractor {args}")


def _field_extractor(path: str, otherwise: str) -> Function:
    def extract(record: Any, partition_time_ms: int) -> int:
        found = evaluate({"fn": "field", "path": path, "args": [{"const": record.value}]}, {})
        if isinstance(found, int) and not isinstance(found, bool):
            return found
        if otherwise == "record":
            return int(record.timestamp_ms)
        if otherwise == "partition_time":
            return partition_time_ms
        raise UserError(f"no timestamp in {record.value!r}")

    return extract


def windows_of(args: Any) -> Any:
    """The windows that a case names."""
    times = {name: timedelta(milliseconds=value) for name, value in args.items() if name.endswith("_ms")}
    grace = times.get("grace_ms", timedelta(0))
    match args["type"]:
        case "tumbling":
            return TimeWindows.of_size_and_grace(times["size_ms"], grace)
        case "hopping":
            return TimeWindows.of_size_and_grace(times["size_ms"], grace).advance_by(times["advance_ms"])
        case "sliding":
            return SlidingWindows.of_time_difference_and_grace(times["difference_ms"], grace)
        case "unlimited":
            return UnlimitedWindows.of().start_on(datetime.fromtimestamp(0, UTC) + times["start_ms"])
        case "session":
            return SessionWindows.of_inactivity_gap_and_grace(times["gap_ms"], grace)
    raise Unsupported(f"{args['type']} windows")


@dataclass(frozen=True)
class DynamicTopic:
    """A topic extractor; named as the recorder's own, whose name is in the descriptions."""

    function: Function

    def __call__(self, key: Any, value: Any, record_context: RecordContext) -> str:
        """The topic of a record."""
        return str(self.function(key, value))
