"""Aggregates on Spark and Kafka: the trace of a command over services, and an erasure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.spark.place import Place, until
from tests.unit.patterns.test_erasure import DECIDER, NAME, Customer, Register, Registered

from hayase import StreamsBuilder
from hayase.cli.main import run_cli
from hayase.core.errors import StateError
from hayase.log.open import open_log
from hayase.log.protocol import LogConfig, OutputBatch
from hayase.patterns import AggregateCommand, AggregateState, Decider, EventSourced, PatternsApp, SubjectKeys
from hayase.patterns.command_reading import command_headers

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(600)]

START = timedelta(minutes=3)


@dataclass
class Greet:
    customer: str


@dataclass
class Greeted:
    customer: str


def greet(command: Greet, greeted: bool) -> list[Greeted]:
    return [] if greeted else [Greeted(command.customer)]


def is_greeted(greeted: bool, event: Greeted) -> bool:
    return True


def test_a_trace_shows_what_a_command_caused_and_an_erasure_reaches_the_running_application(
    kafka_place: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = kafka_place
    keys = SubjectKeys(f"{place.prefix}keys")
    account = EventSourced(f"{place.prefix}account", DECIDER, keys=keys)
    mail = EventSourced(f"{place.prefix}mail", Decider(False, greet, is_greeted))

    @account.on(Registered)
    def welcome(event: Registered, own: AggregateState[Customer | None]) -> AggregateCommand:
        return mail.command(own.id, Greet(event.customer))

    builder = StreamsBuilder()
    account.add_to(builder)
    mail.add_to(builder)
    app = PatternsApp(builder, place.settings(), partitions=2)
    app.start()
    try:
        with app.commands(account) as commands:
            registered = commands.send("1", Register("ada", NAME), correlation_id="visit", timeout=START)
            assert registered.accepted
        until(lambda: count_of_events(app, mail, "1") == 1, app)
        assert app.events(account).history("1")[0].event == Registered("ada", NAME)

        lines = traced(place, capsys, "--values")
        assert [line.strip() for line in lines[0]] == [
            "command Register to account 1", "event Registered of account 1", "command Greet to mail 1",
            "event Greeted of mail 1", "reply accepted of mail", "event Noted of account 1",
            "reply accepted of account",
        ]  # fmt: skip
        assert NAME not in lines[1]

        other = LogConfig("embedded", str(tmp_path / "other"))
        command_on(other, mail.command("7", Greet("bob")))
        both, _ = traced(place, capsys, "--log-dir", str(tmp_path / "other"))
        assert len(both) == 8 and both[-1].strip() == "command Greet to mail 7"

        assert app.erase("ada").erased_ms is not None
        until(lambda: app.events(account).history("1")[0].event == Registered("ada", "[erased]"), app)
        with app.commands(account) as commands:
            assert commands.send("2", Register("eve", "Eve"), timeout=START).accepted
        assert app.events(account).state("1").state == Customer("ada", "[erased]")
        until(lambda: app.events(account).state("2").state == Customer("eve", "Eve"), app)
    finally:
        app.close()
        keys.close()


def count_of_events(app: PatternsApp, aggregate: EventSourced[Any, Any, Any], key: str) -> int:
    """How many events an aggregate has; 0 before the tasks have run for the first time."""
    try:
        return len(app.events(aggregate).history(key))
    except StateError:
        return 0


def traced(place: Place, capsys: pytest.CaptureFixture[str], *options: str) -> tuple[list[str], str]:
    """What `hayase trace` prints of each record, without times, ids and prefixes; and all of it."""
    capsys.readouterr()
    assert run_cli(["trace", "visit", "-b", place.config.location, *options]) == 0
    text = capsys.readouterr().out
    lines = [line[29:].replace(place.prefix, "").partition(" (")[0] for line in text.splitlines()]
    return [line.partition(" {")[0] for line in lines], text


def command_on(log: LogConfig, command: AggregateCommand) -> None:
    opened = open_log(log)
    opened.create_topic(command.topic, 1)
    writer = opened.writer()
    headers = command_headers(command, "b", "/other", 2**41, {"correlationid": "visit"})
    writer.append([OutputBatch(command.topic, [b"7"], [command.data], [2**41], None, [headers])])
    writer.close()
    opened.close()
