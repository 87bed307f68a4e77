"""Sagas whose data, or whose commands, have personal fields."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated

import pytest
from tests.unit.patterns.sagas import Checkout

from hayase import Serdes, StreamsBuilder, Topology
from hayase.core.errors import HayaseError, LogError, TopologyError
from hayase.patterns import CommandTarget, Personal, Saga, Step, SubjectKeys
from hayase.patterns.command_reading import command_headers
from hayase.patterns.replies import Reply, encode_reply
from hayase.testing import TopologyTestDriver

ADDRESS = "Marylebone Road 12"


@dataclass(frozen=True)
class Send:
    customer: str
    address: Annotated[str, Personal(subject="customer")]


@dataclass(frozen=True)
class Pack:
    item: str


def saga(keys: SubjectKeys) -> Saga[Send]:
    packing, letters = CommandTarget("packing", [Pack]), CommandTarget("letters", [Send], keys=keys)
    return Saga(
        "sending",
        Send,
        [
            Step(name="pack", to=packing, action=lambda saga: Pack("book"), pivot=True),
            Step(name="send", to=letters, action=lambda saga: saga.data, timeout=timedelta(seconds=1)),
        ],
        keys=keys,
    )


def test_the_data_of_a_saga_is_encrypted_wherever_it_is_written_and_erased_for_later_steps() -> None:
    keys = SubjectKeys("letters-keys")
    keys.use_memory()
    sending, builder, raw = saga(keys), StreamsBuilder(), Serdes.bytes()
    sending.add_to(builder)
    with TopologyTestDriver(builder.build()) as driver:
        made = sending.start("17", Send("ada", ADDRESS))
        headers = command_headers(made, "a", "/tests", 0, {})
        driver.create_input_topic("sending-commands", raw, raw).pipe_input(b"17", made.data, headers=headers)
        row = driver.store("sending-state").get("17")
        answer = Reply(status="accepted", aggregate="packing", aggregate_id="17", command_id="sending:17:pack:action:1")
        answered = (("ce_causationid", answer.command_id.encode()), ("ce_type", b"Reply"), ("ce_id", b"r"))
        driver.create_input_topic("packing-replies", raw, raw).pipe_input(b"17", encode_reply(answer), headers=answered)
        keys.erase("ada")
        for _ in range(2):  # without an answer it is sent again
            driver.advance_wall_clock_time(timedelta(minutes=1))
        first, *_, last = driver.create_output_topic("letters-commands", raw, raw).read_values_to_list()
        told = driver.create_output_topic("sending-events", raw, raw).read_values_to_list()
        assert all(ADDRESS.encode() not in data for data in (made.data, bytes(row.data), first, last, *told))
        read = sending.definitions[1].steps["send"].to.command_types.decode
        assert read("Send", first) == read("Send", last) == Send("ada", "[erased]")


def test_personal_data_of_a_saga_without_keys_is_refused() -> None:
    target = CommandTarget("packing", [Pack])
    with pytest.raises(TopologyError, match=r"Send has personal fields, address; give the keys .*keys=SubjectKeys"):
        Saga("sending", Send, [Step(name="pack", to=target, action=lambda saga: Pack("book"))])


@dataclass(frozen=True)
class Letter:
    name: Annotated[str, Personal()]


def letters(keys: SubjectKeys) -> Saga[Checkout]:
    target = CommandTarget("letters", [Letter], keys=keys)
    step = Step(name="write", to=target, action=lambda saga: Letter(saga.data.item))
    return Saga("checkout", Checkout, [step])


def start(driver: TopologyTestDriver, saga: Saga[Checkout]) -> None:
    made = saga.start("17", Checkout("Ada"))
    commands = driver.create_input_topic("checkout-commands", Serdes.string(), Serdes.bytes())
    commands.pipe_input("17", made.data, headers=command_headers(made, "a", "/tests", 0, {}))


def topology_of_saga(saga: Saga[Checkout]) -> Topology:
    builder = StreamsBuilder()
    saga.add_to(builder)
    return builder.build()


def test_a_saga_tells_the_keys_of_its_addressees_where_the_log_is(monkeypatch: pytest.MonkeyPatch) -> None:
    bound: list[str] = []
    monkeypatch.setattr(SubjectKeys, "bind", lambda self, config: bound.append(self.topic))
    keys = SubjectKeys("letters-keys")
    saga = letters(keys)
    with TopologyTestDriver(topology_of_saga(saga)) as driver:
        assert bound == ["letters-keys"] and saga.keys_of_commands == (keys,)
        keys.use_memory()
        start(driver, saga)
        sent = driver.create_output_topic("letters-commands", Serdes.string(), Serdes.bytes())
        (value,) = sent.read_values_to_list()
        assert b"Ada" not in value


def test_keys_that_cannot_be_read_now_do_not_end_a_saga(monkeypatch: pytest.MonkeyPatch) -> None:
    def away(self: SubjectKeys, subject: str, data: bytes) -> dict[str, str]:
        raise LogError("BROKER_UNREACHABLE", "the log is away")

    monkeypatch.setattr(SubjectKeys, "encrypt", away)
    saga = letters(SubjectKeys("letters-keys"))
    with TopologyTestDriver(topology_of_saga(saga)) as driver, pytest.raises(HayaseError, match="the log is away"):
        start(driver, saga)
