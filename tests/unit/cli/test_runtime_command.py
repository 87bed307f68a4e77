"""`hayase runtime run`, without Spark: planner and slots are threads of this process."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.unit.app.query_in_process import QueryInProcess

from hayase.app.states import State
from hayase.app.streams_runtime import StreamsRuntime
from hayase.cli.main import run_cli
from hayase.cli.runtime_display import ShownStates
from hayase.log.open import open_log
from hayase.log.protocol import LogConfig
from hayase.runtime.driver import shared_query

PROGRAM = Path(__file__).parents[1] / "patterns" / "local_orders.py"


@pytest.fixture
def arguments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setattr(shared_query, "SharedQuery", QueryInProcess)
    state = f"state.dir={tmp_path / 'state'}"
    return ["runtime", "run", f"orders={PROGRAM}:topology", "--log-dir", str(tmp_path / "log"), "-c", state, "--to-end"]


def test_topics_of_aggregates_are_made_with_settings_that_keep_events(arguments: list[str], tmp_path: Path) -> None:
    assert run_cli(arguments) == 0
    with closing(open_log(LogConfig("embedded", str(tmp_path / "log")))) as log:
        assert {"order-commands", "order-events", "order-replies"} <= set(log.topics())
        assert log.topic_config("order-events")["retention.ms"] == "-1"


def test_an_aggregate_whose_events_would_expire_is_refused(
    arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with closing(open_log(LogConfig("embedded", str(tmp_path / "log")))) as log:
        for name in ("order-commands", "order-events", "order-replies"):
            log.create_topic(name, 1, {"retention.ms": "1000"})
    assert run_cli(arguments) == 1
    assert "EVENTS_WOULD_BE_LOST" in capsys.readouterr().err


COPIES = """
from hayase import *

builder = StreamsBuilder()
builder.stream("in", Consumed.with_(Serdes.string(), Serdes.string())).to(
    "{sink}", Produced.with_(Serdes.string(), Serdes.string())
)
topology = builder.build()
"""


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Of a runtime whose log has the topics of a program; the program and one whose sink is missing are files."""
    monkeypatch.setattr(shared_query, "SharedQuery", QueryInProcess)
    with closing(open_log(LogConfig("embedded", str(tmp_path / "log")))) as log:
        for topic in ("in", "out"):
            log.create_topic(topic, 1)
    (tmp_path / "copies.py").write_text(COPIES.format(sink="out"))
    (tmp_path / "astray.py").write_text(COPIES.format(sink="missing"))
    return {"application.id": "shop", "state.dir": str(tmp_path / "state"), "log.dir": str(tmp_path / "log")}


def options(settings: dict[str, str]) -> list[str]:
    return [part for key, value in settings.items() for part in ("-c", f"{key}={value}")]


@pytest.fixture
def shop(settings: dict[str, str]) -> Iterator[StreamsRuntime]:
    with StreamsRuntime(settings) as runtime:
        runtime.start()
        yield runtime


def interval_ms(runtime: StreamsRuntime) -> int:
    return runtime.topology("copies").config.commit_interval_ms


def test_settings_of_a_topology_among_those_of_add_are_those_of_the_topology(
    shop: StreamsRuntime, settings: dict[str, str], tmp_path: Path
) -> None:
    program = str(tmp_path / "copies.py")
    assert run_cli(["runtime", "add", program, *options(settings), "-c", "commit.interval.ms=5000"]) == 0
    assert interval_ms(shop) == 5000
    assert run_cli(["runtime", "replace", program, *options(settings)]) == 0
    assert interval_ms(shop) == 5000, "a replacement without settings keeps those that there are"
    assert run_cli(["runtime", "replace", program, *options(settings), "-c", "commit.interval.ms=300"]) == 0
    assert interval_ms(shop) == 300
    both = ["-c", "commit.interval.ms=300", "--set", "commit.interval.ms=200"]
    assert run_cli(["runtime", "replace", program, *options(settings), *both]) == 0
    assert interval_ms(shop) == 200


def test_a_runtimes_setting_for_a_topology_is_refused(
    shop: StreamsRuntime, settings: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program = str(tmp_path / "copies.py")
    assert run_cli(["runtime", "add", program, *options(settings), "--set", "num.stream.threads=3"]) == 1
    assert "SETTING_OF_RUNTIME" in capsys.readouterr().err
    assert shop.topologies == {}


@pytest.mark.parametrize(
    "command", [("status",), ("remove", "a"), ("pause", "a"), ("resume", "a"), ("restart", "a")], ids=lambda c: c[0]
)
def test_commands_that_cannot_use_a_topologys_setting_refuse_it(
    command: tuple[str, ...], settings: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_cli(["runtime", *command, *options(settings), "-c", "commit.interval.ms=5000"]) == 1
    said = capsys.readouterr().err
    assert "SETTING_OF_TOPOLOGY" in said and "commit.interval.ms" in said and "`add` or `replace`" in said


@pytest.mark.parametrize("command", ["status", "add", "replace", "remove", "pause", "resume", "restart"])
def test_help_shows_a_setting_that_the_command_uses(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    run_cli(["runtime", command, "--help"])
    said = capsys.readouterr().out
    assert "application.id=shop" in said and "commit.interval.ms=500" not in said


def test_status_of_a_runtime_that_does_not_run_says_what_it_remembers(
    settings: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_cli(["runtime", "status", *options(settings)]) == 3
    assert "it remembers no topologies" in capsys.readouterr().out
    with StreamsRuntime(settings) as runtime:
        runtime.start()
        for name in ("kept", "held"):
            assert run_cli(["runtime", "add", f"{name}={tmp_path / 'copies.py'}", *options(settings)]) == 0
        assert run_cli(["runtime", "pause", "held", *options(settings)]) == 0
    capsys.readouterr()
    assert run_cli(["runtime", "status", *options(settings)]) == 3
    said = capsys.readouterr()
    assert "'shop' is not running" in said.err
    assert said.out.splitlines() == ["held\tshop-held\tremembered, paused", "kept\tshop-kept\tremembered"]


def test_status_of_a_runtime_that_starts_says_so_and_what_it_remembers(
    settings: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with StreamsRuntime(settings) as runtime:
        runtime.start()
        assert run_cli(["runtime", "add", str(tmp_path / "copies.py"), *options(settings)]) == 0
    capsys.readouterr()
    said: list[str] = []

    class Slow(QueryInProcess):
        def start(self) -> None:
            assert run_cli(["runtime", "status", *options(settings)]) == 0
            said.append(capsys.readouterr().out)
            super().start()

    monkeypatch.setattr(shared_query, "SharedQuery", Slow)
    with StreamsRuntime(settings) as runtime:
        runtime.start()
    assert "runtime shop: REBALANCING" in said[0] and "it is starting" in said[0]
    assert "copies\tshop-copies\tremembered" in said[0]


def test_a_run_without_topologies_says_how_to_add_one(
    settings: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_cli(["runtime", "run", *options(settings), "--to-end"]) == 0
    said = capsys.readouterr().out
    assert "no topologies" in said and "hayase runtime add FILE:NAME -c application.id=shop" in said


def test_two_programs_of_one_name_are_told_apart_by_names_to_give(
    settings: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program = str(tmp_path / "copies.py")
    assert run_cli(["runtime", "run", program, program, *options(settings), "--to-end"]) == 1
    said = capsys.readouterr().err
    assert f"copies_2={program}" in said and "remove it first" not in said


def test_a_topology_that_is_refused_is_said_to_be_gone(
    shop: StreamsRuntime, settings: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = ShownStates(shop)
    watched: list[Any] = []
    add = shop.add_topology

    def watch(*arguments: Any, **more: Any) -> Any:
        start = shop._start_topology

        def start_seen(app: Any) -> None:
            shown.update()
            watched.append(app.name)
            start(app)

        shop._start_topology = start_seen  # type: ignore[method-assign, assignment]
        return add(*arguments, **more)

    shop.add_topology = watch  # type: ignore[method-assign]
    assert run_cli(["runtime", "add", str(tmp_path / "astray.py"), *options(settings)]) == 1
    assert watched == ["astray"]
    capsys.readouterr()
    shown.update()
    said = capsys.readouterr().out
    assert said.startswith("astray\tshop-astray\trefused") and "UNKNOWN_TOPIC" in said
    shown.update()
    assert capsys.readouterr().out == "", "it is said once"


def test_a_topology_that_is_removed_is_said_to_be_gone(capsys: pytest.CaptureFixture[str]) -> None:
    app = SimpleNamespace(config=SimpleNamespace(application_id="shop-a"), error=None, state=State.RUNNING)
    runtime: Any = SimpleNamespace(topologies={"a": app})
    shown = ShownStates(runtime)
    shown.update()
    runtime.topologies = {}
    shown.update()
    assert capsys.readouterr().out.splitlines() == ["a\tshop-a\tRUNNING", "a\tshop-a\tremoved"]


def once(condition: Callable[[], bool], then: Callable[[], object]) -> threading.Thread:
    """Does something as soon as a condition holds."""

    def wait() -> None:
        while not condition():
            time.sleep(0.01)
        then()

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    return thread


def test_a_stop_while_the_runtime_starts_is_confirmed_at_once(
    settings: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    starting, said_by_then = threading.Event(), threading.Event()
    said: list[str] = []

    class Slow(QueryInProcess):
        def start(self) -> None:
            starting.set()
            said_by_then.wait(10)
            said.append(capsys.readouterr().err)
            super().start()

    monkeypatch.setattr(shared_query, "SharedQuery", Slow)
    once(starting.is_set, lambda: os.kill(os.getpid(), signal.SIGTERM))
    monkeypatch.setattr("hayase.cli.runtime.say_stop_of_start", confirmed(said_by_then))
    assert run_cli(["runtime", "run", str(tmp_path / "copies.py"), *options(settings)]) == 0
    assert "stops as soon as Spark is up" in said[0]
    assert capsys.readouterr().out.splitlines()[-1] == "stopped"


def confirmed(event: threading.Event) -> Callable[[], None]:
    """`say_stop_of_start`, with an event that is set when it has been called."""
    from hayase.cli.lifecycle import say_stop_of_start

    def say() -> None:
        say_stop_of_start()
        event.set()

    return say
