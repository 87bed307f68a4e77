"""The `hayase saga` commands, on an embedded log without Spark."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from tests.unit.patterns import local_sagas
from tests.unit.patterns.local_sagas import LocalSagas
from tests.unit.patterns.sagas import STOCK, Checkout, checkout

from hayase import StreamsBuilder
from hayase.cli.main import run_cli
from hayase.core.errors import TopologyError
from hayase.patterns import PatternsApp, Saga
from hayase.storage.lmdb_env import close_environment

pytestmark = pytest.mark.long

TARGET = f"{local_sagas.__file__}:topology"


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalSagas]:
    """An application that runs, with one saga that waits for the payment."""
    folder = tmp_path_factory.mktemp("sagas")
    made = LocalSagas(folder)
    made.start()
    with PatternsApp(local_sagas.topology, made.settings).commands("checkout") as commands:
        assert commands.send("17", Checkout("book")).accepted
    yield made
    made.stop()
    made.app.close()
    for data in folder.rglob("data.mdb"):
        close_environment(data.parent)


def saga_command(running: LocalSagas, command: str, *arguments: str) -> int:
    given = [part for key, value in running.settings.items() for part in ("-c", f"{key}={value}")]
    return run_cli(["saga", command, TARGET, *arguments, *given])


def listed(running: LocalSagas, capsys: pytest.CaptureFixture[str], *options: str) -> list[tuple[str, str]]:
    capsys.readouterr()
    assert saga_command(running, "list", "--format", "json", *options) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    return [(row["id"], row["status"]) for row in rows]


def test_an_unknown_addressee_is_answered_with_the_aggregates_and_sagas_there_are(running: LocalSagas) -> None:
    app = PatternsApp(local_sagas.topology, running.settings)
    with pytest.raises(TopologyError, match=r"no aggregate and no saga 'chekout'; it has: stock, checkout"):
        app.commands("chekout")


def test_open_sagas_are_listed_and_those_that_are_not_stuck_are_not(
    running: LocalSagas, capsys: pytest.CaptureFixture[str]
) -> None:
    assert listed(running, capsys) == [("17", "running")]
    assert listed(running, capsys, "--stuck") == []


def test_show_prints_each_step(running: LocalSagas, capsys: pytest.CaptureFixture[str]) -> None:
    assert saga_command(running, "show", "checkout", "17", "--format", "json") == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["step"] for row in rows] == ["reserve", "pay", "ship"]
    assert saga_command(running, "show", "checkout", "99") == 1


def test_retry_and_cancel_reach_the_running_application(
    running: LocalSagas, capsys: pytest.CaptureFixture[str]
) -> None:
    assert saga_command(running, "retry", "checkout", "17") == 0
    assert saga_command(running, "cancel", "checkout", "17", "--reason", "the customer called") == 0
    assert listed(running, capsys) == [("17", "undoing")]
    assert saga_command(running, "cancel", "checkout", "99") == 1
    assert "there is no such saga" in capsys.readouterr().err


def test_a_saga_that_is_not_in_the_topology_is_refused_with_those_that_are(
    running: LocalSagas, capsys: pytest.CaptureFixture[str]
) -> None:
    assert saga_command(running, "show", "checkin", "17") == 1
    assert "it has: checkout" in capsys.readouterr().err


def test_a_program_without_the_version_of_an_open_saga_is_refused_when_it_starts(running: LocalSagas) -> None:
    with PatternsApp(_with(checkout(version=2)), running.settings) as later, pytest.raises(TopologyError) as refused:
        later.check_sagas()
    assert refused.value.condition == "SAGA_VERSION_MISSING"
    with PatternsApp(_with(checkout(version=2, earlier={1: local_sagas.STEPS})), running.settings) as both:
        both.check_sagas()


def _with(saga: Saga[Checkout]) -> StreamsBuilder:
    builder = StreamsBuilder()
    for each in (STOCK, saga):
        each.add_to(builder)
    return builder
