"""Processors of the golden cases: steps of the cases' language, run by the Processor API."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.golden.functions import evaluate, text

from hayase import (
    Cancellable,
    FixedKeyProcessor,
    FixedKeyRecord,
    Processor,
    PunctuationType,
    Record,
    Stores,
    ValueTransformerWithKey,
)
from hayase.serde import Serde
from hayase.state.stores.spec import StoreSpec
from hayase.state.stores.values import ValueAndTimestamp
from hayase.state.stores.versioned import VersionedRecord

Log = Callable[[Any], None]


def store_of(args: Mapping[str, Any], serde_of: Callable[[Any], Serde[Any] | None]) -> StoreSpec | None:
    """The store that a case describes; `None` if there is no such kind yet."""
    key, value = serde_of(args["key"]), serde_of(args["value"])
    assert key is not None and value is not None
    match args["kind"]:
        case "key_value":
            return Stores.key_value_store(args["store"], key, value)
        case "timestamped_key_value":
            return Stores.timestamped_key_value_store(args["store"], key, value)
        case "window":
            size, retention = (timedelta(milliseconds=args[name]) for name in ("size_ms", "retention_ms"))
            return Stores.window_store(args["store"], key, value, window_size=size, retention=retention)
        case "versioned":
            history = timedelta(milliseconds=args["history_ms"])
            return Stores.versioned_key_value_store(args["store"], key, value, history_retention=history)
    return None


def version_of(found: Any) -> Any:
    """A version as expressions see it; anything else as it is."""
    if isinstance(found, VersionedRecord):
        return {"value": found.value, "timestamp": found.timestamp_ms}
    return found


def supplier_of(
    args: Mapping[str, Any], log: Log, plain: Callable[[Any], Any], *, fixed_key: bool
) -> Callable[[], Any]:
    """Makes processors that run the steps."""
    kind = FixedKeySteps if fixed_key else Steps
    return lambda: kind(args, log, plain)


class _Machine:
    """Runs steps against a context."""

    def __init__(self, args: Mapping[str, Any], log: Log, plain: Callable[[Any], Any]) -> None:
        self._args = args
        self._log = log
        self._plain = plain
        self._context: Any
        self._timers: dict[str, Cancellable] = {}

    def init(self, context: Any) -> None:
        self._context = context
        for timer in self._args.get("schedule", ()):
            start = timer.get("start_ms")
            kind = PunctuationType.STREAM_TIME if timer["type"] == "stream_time" else PunctuationType.WALL_CLOCK_TIME
            made = context.schedule(
                timedelta(milliseconds=timer["interval_ms"]),
                kind,
                self._timer(timer["steps"]),
                None if start is None else datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=start),
            )
            self._timers[timer.get("name", "")] = made

    def _timer(self, steps: Any) -> Callable[[int], None]:
        def punctuate(time_ms: int) -> None:
            self._run(steps, {"punctuate_time": time_ms, "timestamp": time_ms, **self._times()}, None)

        return punctuate

    def _times(self) -> dict[str, Any]:
        context = self._context
        return {
            "stream_time": context.current_stream_time_ms(),
            "wall_clock": context.current_system_time_ms(),
            "get_store": self._get,
            "get_version": self._get_version,
        }

    def process(self, record: Any) -> None:
        metadata = self._context.record_metadata()
        where = {} if metadata is None else metadata._asdict()
        names = {"key": self._plain(record.key), "value": record.value, "timestamp": record.timestamp_ms, **where}
        names["headers"] = [[name, (value or b"").decode()] for name, value in record.headers]
        self._run(self._args["on_record"], {**names, **self._times()}, record)

    def _get(self, store: str, key: Any) -> Any:
        found = self._context.get_state_store(store).get(key)
        return found.value if isinstance(found, ValueAndTimestamp) else version_of(found)

    def _get_version(self, store: str, key: Any, as_of_ms: int) -> Any:
        return version_of(self._context.get_state_store(store).get(key, as_of_ms))

    def _run(self, steps: Any, names: dict[str, Any], record: Any) -> None:
        for step in steps:
            getattr(self, f"_do_{step['do']}")(step, names, record)

    def _do_let(self, step: Any, names: dict[str, Any], _: Any) -> None:
        names[step["name"]] = evaluate(step["expr"], names)

    def _do_if(self, step: Any, names: dict[str, Any], record: Any) -> None:
        taken = "then" if evaluate(step["cond"], names) is True else "else"
        self._run(step.get(taken, ()), names, record)

    def _do_log(self, step: Any, names: dict[str, Any], _: Any) -> None:
        self._log(evaluate(step["expr"], names))

    def _do_cancel(self, step: Any, names: dict[str, Any], _: Any) -> None:
        self._timers[step["name"]].cancel()

    def _do_forward(self, step: Any, names: dict[str, Any], record: Any) -> None:
        out = record if record is not None else Record(None, None, names["punctuate_time"])
        if "key" in step:
            out = out.with_key(evaluate(step["key"], names))
        if "value" in step:
            out = out.with_value(evaluate(step["value"], names))
        if "timestamp" in step:
            out = out.with_timestamp(evaluate(step["timestamp"], names))
        added = tuple((name, text(evaluate(value, names)).encode()) for name, value in step.get("headers", ()))
        self._context.forward(out.with_headers((*out.headers, *added)), step.get("to"))

    def _do_put(self, step: Any, names: dict[str, Any], _: Any) -> None:
        store = self._context.get_state_store(step["store"])
        place = [evaluate(step["timestamp"], names)] if "timestamp" in step else []
        names["put_result"] = store.put(evaluate(step["key"], names), evaluate(step["value"], names), *place)

    def _do_put_if_absent(self, step: Any, names: dict[str, Any], _: Any) -> None:
        store = self._context.get_state_store(step["store"])
        names["put_result"] = store.put_if_absent(evaluate(step["key"], names), evaluate(step["value"], names))

    def _do_delete(self, step: Any, names: dict[str, Any], _: Any) -> None:
        place = [evaluate(step["timestamp"], names)] if "timestamp" in step else []
        deleted = self._context.get_state_store(step["store"]).delete(evaluate(step["key"], names), *place)
        names["deleted"] = version_of(deleted)

    def _do_for_each(self, step: Any, names: dict[str, Any], record: Any) -> None:
        store = self._context.get_state_store(step["store"])
        low, high = (evaluate(step[name], names) if name in step else None for name in ("from", "to"))
        match step["scan"]:
            case "range":
                rows = store.range(low, high)
            case "fetch":
                rows = store.fetch(evaluate(step["key"], names), low, high)
            case scan:
                rows = getattr(store, scan)()
        for key, value in list(rows):
            names.update(it_key=key, it_value=value)
            self._run(step["steps"], names, record)


class Steps(_Machine, Processor[Any, Any, Any, Any]):
    """A processor."""

    def process(self, record: Record[Any, Any]) -> None:
        """Run the steps."""
        super().process(record)


class TransformSteps(_Machine, ValueTransformerWithKey[Any, Any, Any]):
    """A transformer of a table's values."""

    def transform(self, key: Any, value: Any) -> Any:
        """Run the steps, then say the value."""
        names = {"key": self._plain(key), "value": value, **self._times()}
        self._run(self._args.get("steps", ()), names, None)
        return evaluate(self._args["value"], names)


class FixedKeySteps(_Machine, FixedKeyProcessor[Any, Any, Any]):
    """A fixed-key processor."""

    def process(self, record: FixedKeyRecord[Any, Any]) -> None:
        """Run the steps."""
        super().process(record)
