"""What cannot travel to workers is found, with the function that needs it."""

from __future__ import annotations

import dataclasses
import functools
import threading
import types
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from tests.unit.runtime.test_planner import Scene

from hayase import Consumed, FixedKeyProcessor, Serdes, StreamsBuilder
from hayase.core.errors import ConfigError
from hayase.dsl import KStream
from hayase.runtime.wire.unpicklable import unpicklable_part

MODULE_LOCK = threading.Lock()
FILE = "tests/unit/runtime/test_unpicklable.py"


def stream() -> tuple[StreamsBuilder, KStream[Any, Any]]:
    builder = StreamsBuilder()
    return builder, builder.stream("in", Consumed.with_(Serdes.string(), Serdes.json(schema={"a": pl.Int64})))


def told(builder: StreamsBuilder) -> tuple[str, str | None]:
    found = unpicklable_part(builder.build())
    return str(found), found.node


def helper(value: Any) -> Any:
    with MODULE_LOCK:
        return value


def test_a_variable_of_a_closure_is_named_with_its_function_and_node() -> None:
    builder, records = stream()
    lock = threading.Lock()

    def price(value: Any) -> Any:
        with lock:
            return value

    records.map_values(price, name="pricing")
    line = price.__code__.co_firstlineno
    assert told(builder) == (f"{FILE}:{line} in price uses 'lock', a _thread.lock", "pricing")


def test_a_global_of_a_function_that_a_lambda_calls_is_named_with_that_function() -> None:
    builder, records = stream()
    # As in a file that was started itself: its functions travel with their code.
    inner = functools.partial(lambda value, how: how(value), how=_by_value(helper))
    records.map_values(inner)
    line = helper.__code__.co_firstlineno
    assert told(builder)[0] == f"{FILE}:{line} in helper uses 'MODULE_LOCK', a _thread.lock"


def _by_value(function: Any) -> Any:
    made = types.FunctionType(function.__code__, function.__globals__, function.__name__)
    made.__module__ = "__main__"
    return made


def test_an_attribute_of_an_object_is_named_by_the_way_that_leads_to_it() -> None:
    class Client:
        def __init__(self) -> None:
            self.session = {"lock": threading.Lock()}

    client = Client()
    builder, records = stream()
    function = lambda value: client.session  # noqa: E731
    records.map_values(function)
    line = function.__code__.co_firstlineno
    assert told(builder)[0] == f"{FILE}:{line} in <lambda> uses 'client.session.lock', a _thread.lock"


def test_a_function_in_an_expression_is_found_too() -> None:
    lock = threading.Lock()
    builder, records = stream()

    def locked(number: int) -> int:
        with lock:
            return number

    records.map_values({"a": pl.col("a").map_elements(locked, return_dtype=pl.Int64)}, name="counted")
    assert told(builder) == (
        f"{FILE}:{locked.__code__.co_firstlineno} in locked uses 'lock', a _thread.lock",
        "counted",
    )


def test_a_class_attribute_of_a_processor_is_found() -> None:
    lock = threading.Lock()

    class Guarded(FixedKeyProcessor[Any, Any, Any]):
        def process(self, record: Any) -> None:
            with lock:
                pass

    builder, records = stream()
    records.process_values(Guarded)
    assert told(builder)[0].endswith("in process uses 'lock', a _thread.lock")


def test_the_error_of_a_start_says_it(tmp_path: Path) -> None:
    builder, records = stream()
    lock = threading.Lock()
    records.map_values(lambda value: lock, name="pricing").to("out")
    app = dataclasses.replace(Scene(tmp_path / "scene").app, topology=builder.build())
    with pytest.raises(ConfigError) as raised:
        app.to_bytes()
    assert raised.value.condition == "NOT_PICKLABLE"
    assert "in <lambda> uses 'lock', a _thread.lock (cannot pickle '_thread.lock' object)" in raised.value.message
    assert dict(raised.value.context) == {"node": "pricing"}
