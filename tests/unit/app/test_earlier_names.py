"""Programs that earlier releases numbered and named otherwise, on a checkpoint of one of those and on a new one."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from tests.spark import earlier

from hayase import Consumed, Follower, Grouped, Joined, Serdes, StreamsApp, StreamsBuilder, Topology
from hayase.app.checkpoint import fix_plan, stored_plan
from hayase.app.migrate import migrate_stores
from hayase.app.plan_switch import check_plan
from hayase.compiler.options import configured
from hayase.core.config import StreamsConfig
from hayase.core.errors import CheckpointError, UnknownStoreError
from hayase.query.checkpoint import find_checkpoint
from hayase.storage.open import open_blobs
from hayase.topology.earlier import differs, in_format

TEXT = Serdes.string()
READ, GROUPED, JOINED = Consumed.with_(TEXT, TEXT), Grouped.with_(TEXT, TEXT), Joined.with_(TEXT, TEXT, TEXT)
NEW, OLD = "KTABLE-AGGREGATE-STATE-STORE-0000000008", "KTABLE-REDUCE-STATE-STORE-0000000008"


@pytest.fixture
def started(tmp_path: Path) -> StreamsConfig:
    """Settings of the application whose log and checkpoint an earlier release left."""
    log = earlier.unpacked(tmp_path)
    return StreamsConfig(
        {"application.id": "app", "state.dir": str(tmp_path / "state"), "log.dir": log.location, **_dotted()}
    )


def _dotted() -> dict[str, Any]:
    return {name.replace("_", "."): value for name, value in earlier.SETTINGS.items()}


def test_a_topology_is_as_earlier_releases_made_it_where_the_checkpoint_is_theirs(started: StreamsConfig) -> None:
    topology = configured(earlier.build(), started)
    blobs = open_blobs(started.checkpoint_dir)
    check_plan(blobs, topology, started)
    stored = stored_plan(blobs)
    assert stored is not None
    before = stored.names(topology)
    plan = json.loads(stored.text)
    units = {str(part.id): [node.name for node in part.nodes] for part in before.subtopologies}
    assert units == {unit: each["nodes"] for unit, each in plan["units"].items() if unit != "global0"}
    assert sorted(before.repartitions) == sorted(plan["repartitions"])
    assert OLD in before.stores
    assert NEW not in before.stores


def test_describe_prints_todays_numbers_and_names_whatever_the_checkpoint_says(started: StreamsConfig) -> None:
    app = StreamsApp(earlier.build(), started)
    text = app.topology.describe()
    assert text == earlier.build().describe()
    assert NEW in text
    assert OLD not in text
    assert text.index("z-words") < text.index("b-names-source") < text.index("Sub-topology: 2")


@pytest.mark.parametrize("name", [NEW, OLD])
def test_stores_of_an_earlier_checkpoint_go_by_the_names_that_describe_prints_and_by_those_they_had(
    started: StreamsConfig, name: str
) -> None:
    app = StreamsApp(earlier.build(), started)
    found = find_checkpoint(open_blobs(started.checkpoint_dir), "app")
    assert found is not None
    epoch = found.epochs.last_done()
    assert app.store(name, as_of_epoch=epoch).get("c").value == "c8"
    assert app.history(name).newest_epoch == epoch
    with app.pin(name, as_of_epoch=epoch) as pinned:
        assert pinned.store(name).get("b").value == "b7"
    with Follower(earlier.build(), started) as follower:
        assert follower.wait_for(epoch)
        assert follower.store(name).get("a").value == "a9"
        with follower.pin(name) as pinned:
            assert pinned.store(name).get("a").value == "a9"
    with pytest.raises(UnknownStoreError):
        app.store("KTABLE-REDUCE-STATE-STORE-0000000009")


def test_a_migration_rewrites_the_store_of_an_earlier_checkpoint_by_the_name_that_describe_prints(
    started: StreamsConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers = Serdes.json(schema={"n": pl.Int64})
    monkeypatch.setattr(earlier, "_GROUPED", Grouped.with_(TEXT, numbers))
    done = migrate_stores(earlier.build(), started, {NEW: lambda value: {"n": len(value)}})
    assert [(store.store, store.values, store.failed) for store in done.stores] == [(OLD, 3, 0)]
    assert StreamsApp(earlier.build(), started).store(NEW, as_of_epoch=done.epoch or 0).get("a").value == {"n": 2}


def named_then_unnamed(builder: StreamsBuilder) -> None:
    table = builder.table("t", READ)
    keyed = builder.stream("s", READ).select_key(lambda _, value: value)
    keyed.left_join(table, lambda one, other: other, JOINED.with_name("j")).to("x")
    keyed.join(table, lambda one, other: other, JOINED).to("y")


def numbers_only(builder: StreamsBuilder) -> None:
    builder.stream("a", Consumed.as_("z")).to("b")
    builder.stream("c", Consumed.as_("d")).to("e")


def equal_schemas(builder: StreamsBuilder) -> None:
    keyed = builder.stream("s", READ).select_key(lambda _, value: value)
    for topic in ("x", "y"):
        keyed.group_by_key(Grouped.with_(TEXT, Serdes.json(schema={"n": pl.Int64}))).count().to_stream().to(topic)


def alike(builder: StreamsBuilder) -> None:
    builder.stream("a", READ).group_by_key(GROUPED).count().to_stream().to("b")


def built(program: Callable[[StreamsBuilder], None], optimization: str = "none") -> Topology:
    builder = StreamsBuilder()
    program(builder)
    return builder.build({"topology.optimization": optimization})


@pytest.mark.parametrize(
    ("program", "optimization", "repartitions"),
    [
        (named_then_unnamed, "none", (1, 2)),
        (numbers_only, "none", (0, 0)),
        (equal_schemas, "all", (1, 2)),
    ],
)
def test_programs_that_earlier_releases_built_otherwise_are_built_both_ways(
    program: Callable[[StreamsBuilder], None], optimization: str, repartitions: tuple[int, int]
) -> None:
    topology = built(program, optimization)
    assert differs(topology)
    before = in_format(topology, 1)
    assert (len(topology.repartitions), len(before.repartitions)) == repartitions
    assert (before.earlier, in_format(topology, 2).earlier) == (None, None)


def test_what_is_added_to_a_built_topology_is_added_to_what_earlier_releases_made_of_it() -> None:
    topology = built(named_then_unnamed)
    topology.add_source("more", "m").add_sink("end", "n", "more")
    assert {"more", "end"} <= {node.name for node in in_format(topology, 1).nodes}


def test_a_new_checkpoint_says_its_format_where_numbers_or_names_differ_and_only_there(tmp_path: Path) -> None:
    assert not differs(built(alike))
    for number, new_names in enumerate((False, True)):
        blobs = open_blobs(str(tmp_path / str(number)))
        fix_plan(blobs, "app", '{"bundles":{},"units":{}}', new_names=new_names)
        fix_plan(blobs, "app", '{"bundles":{},"units":{}}', new_names=False)
        stored = stored_plan(blobs)
        assert stored is not None
        assert ("format" in json.loads(stored.text)) is new_names
        assert stored.names(built(numbers_only)).numbered_by_sources is not new_names
        with pytest.raises(CheckpointError, match=r"sub-topology 0 .* is new"):
            fix_plan(blobs, "app", '{"bundles":{},"units":{"0":{}}}', new_names=False)
