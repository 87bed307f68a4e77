"""Programs of the documentation run on Spark however they are started: as a file, as a module, as `__main__`."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tests.spark.place import Place
from tests.spark.recipes import RECIPES, Outcome

from hayase import Serdes
from hayase.cli.load import load
from hayase.core.records import TopicPartition
from hayase.runtime.wire.pickling import by_value
from hayase.testing import TopologyTestDriver

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
WAYS = ("file", "module", "main")


@pytest.fixture(autouse=True)
def restored(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("PYTHONPATH", "")
    path, modules = list(sys.path), set(sys.modules)
    Outcome.told.clear()
    yield
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        del sys.modules[name]


def started(code: str, way: str, folder: Path, patch: pytest.MonkeyPatch) -> ModuleType:
    """The module of a program that was started in one of the three ways; `folder` has a name of its own."""
    (folder / "shop").mkdir()
    (folder / "shop/__init__.py").touch()
    file = folder / "shop" / f"stream_{folder.name.replace('-', '_')}.py"
    file.write_text(code)
    if way == "file":
        loaded = load(f"{file}:builder").module
        assert loaded is not None
        by_value(loaded)
        return loaded
    if way == "module":
        patch.syspath_prepend(folder / "shop")
        return importlib.import_module(file.stem)
    module = ModuleType("__main__")
    module.__file__ = str(file)
    patch.setitem(sys.modules, "__main__", module)
    # What the file does when it is started itself is the test's.
    exec(compile(code.partition('\nif __name__ == "__main__":')[0], str(file), "exec"), vars(module))
    return module


@pytest.mark.parametrize("way", [pytest.param(way, marks=[pytest.mark.slow] if way != "main" else []) for way in WAYS])
@pytest.mark.parametrize("title", RECIPES)
def test_a_recipe_comes_out_on_spark_as_it_says(
    title: str, way: str, place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started(RECIPES[title], way, tmp_path, monkeypatch)
    (told,) = Outcome.told
    for topic in {topic for topic, *_ in told.records} | {"out"}:
        place.topic(topic, 1)
    for topic, key, value, seconds in told.records:
        place.put(topic, [(key, value, int(seconds * 1000))])
    place.run(told.builder.build(), statestore_cache_max_bytes=0)
    assert told.chosen(written(place, "out", told.key, Serdes.json())) == told.expected


def written(place: Place, topic: str, key: Any, value: Any) -> list[tuple[Any, Any]]:
    """Keys and values of a topic of one partition."""
    return [
        (key.deserialize(data), value.deserialize(text))
        for batch in place._batches(TopicPartition(topic, 0))
        for data, text in zip(batch.keys, batch.values, strict=True)
    ]


FED = {
    "quickstart": [("purchases", "ada", {"item": "book", "cents": 1250}), ("purchases", "ada", {"cents": 300})],
    "typed": [("orders", "ada", {"item": "book", "cents": 5}), ("orders", "bob", {"item": "pen", "cents": 1})],
    "ecommerce": [
        ("users", "ada", {"name": "Ada", "street": "1", "city": "Turin", "region": "south"}),
        ("products", "p1", {"name": "book"}),
        ("orders", "ada", {"id": 1, "product": "p1", "quantity": 2, "amount": 900, "card": "1234", "test": False}),
    ],
}
SINKS = {"quickstart": ["spending"], "typed": ["sold"], "ecommerce": ["enriched-orders", "sales"]}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", FED)
def test_an_example_writes_on_spark_what_it_writes_in_the_test_driver(
    name: str, way: str, place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = started((EXAMPLES / f"{name}.py").read_text(), way, tmp_path, monkeypatch)
    uncached = {"statestore.cache.max.bytes": 0}
    text, json, anything = Serdes.string(), Serdes.json(), Serdes.bytes()
    with TopologyTestDriver(program.topology, uncached) as driver:
        for at, (topic, key, value) in enumerate(FED[name]):
            driver.create_input_topic(topic, text, json).pipe_input(key, value, timestamp_ms=at)
        expected = {
            sink: driver.create_output_topic(sink, anything, anything).read_key_values_to_list() for sink in SINKS[name]
        }
    for topic in {topic for topic, *_ in FED[name]}.union(SINKS[name]):
        place.topic(topic, 1)
    for at, (topic, key, value) in enumerate(FED[name]):
        place.put(topic, [(key, value, at)])
    place.run(program.topology, statestore_cache_max_bytes=0)
    assert {sink: written(place, sink, anything, anything) for sink in SINKS[name]} == expected
    assert all(expected.values())
