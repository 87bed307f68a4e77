"""Applications and topologies of a shared runtime: one copy of each at a time, and what each has of its own."""

from __future__ import annotations

import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.spark.place import Place, until
from tests.unit.app.query_in_process import QueryInProcess, embedded_place, runtime_in

from hayase import Consumed, Materialized, Produced, Serdes, State, StreamsApp, StreamsBuilder, StreamsRuntime, Topology
from hayase.cli.main import run_cli
from hayase.core.errors import HayaseError, LeaseHeldError
from hayase.runtime.driver import shared_query
from hayase.runtime.driver.lease import lease_for
from hayase.storage.open import open_blobs

pytestmark = pytest.mark.long

TEXT = Serdes.string()


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    monkeypatch.setattr(shared_query, "SharedQuery", QueryInProcess)
    with embedded_place(tmp_path, "in", "out", "other") as made:
        yield made


def copying(sink: str) -> Topology:
    builder = StreamsBuilder()
    builder.stream("in", Consumed.with_(TEXT, TEXT)).to(sink, Produced.with_(TEXT, TEXT))
    return builder.build()


def counting() -> Topology:
    builder = StreamsBuilder()
    counts = Materialized.as_("counts").with_key_serde(TEXT)
    builder.stream("in", Consumed.with_(TEXT, TEXT)).group_by_key().count(counts)
    return builder.build()


def shop_in(place: Place, **more: Any) -> StreamsRuntime:
    return runtime_in(place, application_id="shop", **more)


def refused(start: Any) -> None:
    with pytest.raises(LeaseHeldError, match="is running already") as raised:
        start()
    assert raised.value.condition == "LEASE_HELD"


def goes_on(place: Place, key: str) -> None:
    place.put("in", [(key, "1", 1)])
    until(lambda: key in place.last("out"))


def test_beside_a_running_runtime_no_other_copy_of_it_or_of_its_topologies_starts(place: Place) -> None:
    with shop_in(place) as runtime:
        runtime.add_topology("a", copying("out"))
        runtime.start()
        goes_on(place, "first")
        other = shop_in(place)
        refused(other.start)
        assert (other.state, runtime.state) == (State.ERROR, State.RUNNING)
        for application_id in ("shop", "shop-a"):
            app = place.app(copying("out"), application_id=application_id)
            refused(app.start_to_end)
            assert app.state is State.ERROR
        goes_on(place, "second")
        assert [row.key for row in place.rows("out")].count("second") == 1


def test_a_runtime_that_adopts_what_another_one_runs_is_refused_that_topology_alone(place: Place) -> None:
    with shop_in(place) as runtime:
        runtime.add_topology("a", copying("out"))
        runtime.start()
        with runtime_in(place, application_id="market") as other:
            other.add_topology("b", copying("other"))
            other.start()
            refused(lambda: other.add_topology("c", copying("out"), application_id="shop-a"))
            assert set(other.topologies) == {"b"}
            goes_on(place, "both")
            until(lambda: "both" in place.last("other"))


def test_beside_an_application_of_its_id_a_runtime_does_not_start(place: Place) -> None:
    app = place.app(copying("out"), application_id="shop")
    runtime = shop_in(place)
    runtime.add_topology("a", copying("out"))
    with lease_for(open_blobs(app.config.checkpoint_dir, fsync=False), "shop"):
        refused(runtime.start)
    assert runtime.state is State.ERROR
    assert isinstance(runtime.error, LeaseHeldError)


def test_a_topology_that_runs_as_an_application_does_not_start_until_that_has_ended_and_others_do(
    place: Place,
) -> None:
    config = StreamsApp(copying("out"), place.settings(application_id="shop-a")).config
    with shop_in(place) as runtime:
        runtime.add_topology("a", copying("out"))
        runtime.add_topology("b", copying("other"))
        with lease_for(open_blobs(config.checkpoint_dir, fsync=False), "shop-a"):
            runtime.start()
            assert runtime.topology("a").state is State.ERROR
            until(lambda: runtime.topology("b").state is State.RUNNING)
            assert isinstance(runtime.topology("a").error, LeaseHeldError)
            refused(lambda: runtime.restart("a"))
        runtime.restart("a")
        goes_on(place, "later")


def test_handlers_and_listeners_are_of_one_topology_and_stay_with_it(place: Place) -> None:
    fails = place.folder / "fails"
    states: dict[str, list[State]] = {"a": [], "b": []}
    asked: dict[str, list[HayaseError]] = {"a": [], "b": []}

    def fail_once(value: str) -> str:
        if fails.exists():
            fails.unlink()
            raise ValueError("once")
        return value

    def failing(sink: str) -> Topology:
        builder = StreamsBuilder()
        builder.stream("in", Consumed.with_(TEXT, TEXT)).map_values(fail_once).to(sink, Produced.with_(TEXT, TEXT))
        return builder.build()

    def hooks(name: str) -> dict[str, Any]:
        def handle(error: HayaseError) -> Any:
            asked[name].append(error)
            return "REPLACE_THREAD"

        return {
            "state_listener": lambda new, old: states[name].append(new),
            "uncaught_exception_handler": handle,
        }

    with shop_in(place) as runtime:
        runtime.add_topology("a", failing("out"), **hooks("a"))
        runtime.add_topology("b", copying("other"), **hooks("b"))
        runtime.start()
        until(lambda: states["a"][-1:] == [State.RUNNING] == states["b"][-1:])
        for start_again in (
            lambda: None,
            lambda: runtime.restart("a"),
            lambda: runtime.replace_topology("a", failing("out")),
        ):
            start_again()
            fails.touch()
            goes_on(place, f"after {len(asked['a'])}")
        assert [("once" in str(error)) for error in asked["a"]] == [True, True, True]
        assert asked["b"] == [] and set(states["b"]) == {State.REBALANCING, State.RUNNING}
        assert states["a"].count(State.NOT_RUNNING) == 2
    assert states["b"][-1] is State.NOT_RUNNING


def test_a_topology_that_is_removed_with_its_state_leaves_no_offsets_and_comes_back_as_another_one(
    place: Place,
) -> None:
    with shop_in(place) as runtime:
        runtime.add_topology("a", copying("out"))
        runtime.start()
        goes_on(place, "one")
        config = runtime.topology("a").config
        checkpoint = open_blobs(config.checkpoint_dir, fsync=False)
        until(lambda: bool(place.log.group_offsets("shop-a")))
        first = checkpoint.get("lineage")
        runtime.remove_topology("a")
        assert place.log.group_offsets("shop-a") and checkpoint.get("lineage") == first
        runtime.add_topology("a", copying("out"))
        goes_on(place, "two")
        assert [row.key for row in place.rows("out")].count("one") == 1, "it went on"
        runtime.remove_topology("a", delete_state=True)
        assert not place.log.group_offsets("shop-a") and not place.log.markers("shop-a")
        runtime.add_topology("a", copying("out"))
        until(lambda: [row.key for row in place.rows("out")].count("one") == 2)
        assert checkpoint.get("lineage") not in (None, first)


def test_metrics_of_all_topologies_are_served_in_one_place_and_say_whose_they_are(place: Place) -> None:
    with shop_in(place, metrics_port=0) as runtime:
        runtime.add_topology("a", copying("out"))
        runtime.add_topology("b", copying("other"))
        runtime.start()
        goes_on(place, "one")
        with urllib.request.urlopen(runtime.metrics_url, timeout=30) as answer:
            lines = answer.read().decode().splitlines()
        for name in ("a", "b"):
            assert any(f'topology="{name}"' in line and f"shop-{name}" in line for line in lines), lines[:20]


def test_commands_about_applications_know_topologies_of_a_runtime(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    log, state = f"log.dir={place.config.location}", f"state.dir={place.folder / 'state'}"
    settings = ("-c", log, "-c", state)
    program = place.folder / "program.py"
    program.write_text("from tests.unit.app.test_two_copies import counting\n\ntopology = counting()\n")
    with shop_in(place) as runtime:
        runtime.add_topology("a", counting())
        runtime.start()
        place.put("in", [("k", "1", 1), ("k", "2", 2)])
        until(lambda: runtime.topology("a").progress().consumed == 2)
        assert run_cli(("app", "status", "shop-a", *settings)) == 0
        assert "shop-a" in capsys.readouterr().out
        of_topology = ("-c", "application.id=shop-a", *settings)
        assert run_cli(("state", "get", f"{program}:topology", "counts", "k", *of_topology)) == 0
        assert capsys.readouterr().out.split()[-2:] == ["2", "1970-01-01T00:00:00.002Z"]
    assert run_cli(("app", "status", "shop-a", *settings)) == 3
