"""The command topic of a SQL server, on both logs: dense numbers, one writer, nothing lost unnoticed."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from hayase.core.errors import LogError
from hayase.log.protocol import Log
from hayase.server.commands.log import CommandLog
from hayase.server.commands.records import Command, Outcome, encoded


def opened(log: Log, topic: str) -> CommandLog:
    return CommandLog(log, topic, lambda: 1_000)


def command(number: int, statement: str = "CREATE TYPE a AS INT;") -> Command:
    return Command(number=number, sequence=number, id="type/A/create", statement=statement)


def test_records_come_back_in_order(log: Log, new_name: Callable[[], str]) -> None:
    topic = new_name()
    first = opened(log, topic)
    assert first.open() == []
    written = [command(0), Outcome(1, 0, False, "done"), command(2)]
    for record in written:
        first.append(record)
    first.close()
    again = opened(log, topic)
    assert again.open() == written
    assert again.next_number == 3


def test_of_two_writers_of_a_number_one_is_refused(log: Log, new_name: Callable[[], str]) -> None:
    topic = new_name()
    one, other = opened(log, topic), opened(log, topic)
    one.open(), other.open()
    one.append(command(0))
    with pytest.raises(LogError, match="another server writes") as caught:
        other.append(command(0, "CREATE TYPE b AS INT;"))
    assert caught.value.condition == "FENCED"
    one.append(Outcome(1, 0, False, "done"))
    with pytest.raises(LogError, match="another server writes"):
        other.append(command(0, "CREATE TYPE b AS INT;"))
    one.close(), other.close()
    assert [record.number for record in opened(log, topic).open()] == [0, 1]


def test_a_topic_that_is_gone_or_made_again_is_damaged(log: Log, new_name: Callable[[], str]) -> None:
    topic = new_name()
    commands = opened(log, topic)
    commands.open()
    commands.append(command(0))
    commands.close()
    log.delete_topic(topic)
    with pytest.raises(LogError, match="it is gone, and had 1 records"):
        opened(log, topic).open()
    log.create_topic(topic, 1)
    with pytest.raises(LogError, match="0 records instead of 1"):
        opened(log, topic).open()


def test_a_backup_takes_the_place_of_what_is_there(log: Log, new_name: Callable[[], str]) -> None:
    topic = new_name()
    commands = opened(log, topic)
    commands.open()
    commands.append(command(0))
    lines = [encoded(command(0, "CREATE TYPE b AS INT;")), encoded(Outcome(1, 0, False, "done"))]
    assert commands.replace(lines) == 2
    commands.close()
    again = opened(log, topic)
    assert [encoded(record) for record in again.open()] == lines
    again.append(command(2))
    again.close()
