"""Personal fields: encrypted wherever they are written, erased with their key; replay goes on."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.patterns.test_read_models import Events, fill

from hayase import Serdes, StreamsBuilder
from hayase.core.errors import ConfigError, SerializationError, TopologyError
from hayase.core.records import TopicPartition
from hayase.patterns import (
    AggregateState,
    CommandTarget,
    Decider,
    Delete,
    EventSourced,
    PatternsApp,
    Personal,
    ReadModel,
    SqliteTable,
    SubjectKeys,
)
from hayase.patterns.command_reading import command_headers
from hayase.patterns.erasure import BACKUPS, ErasureStatus
from hayase.patterns.personal_data import personal_fields
from hayase.patterns.read_models.verification import verify
from hayase.patterns.recorded_events import event_headers, folded, read_event
from hayase.testing import TopologyTestDriver

NAME = "Ada Lovelace"


@dataclass(frozen=True)
class Register:
    customer: str
    name: Annotated[str, Personal(subject="customer")]
    born: Annotated[int, Personal(subject="customer", erased=0)] = 1815


class Registered(msgspec.Struct, frozen=True, rename="camel"):
    customer: str
    full_name: Annotated[str, Personal(subject="customer")]


@dataclass(frozen=True)
class Noted:
    note: Annotated[str | None, Personal()]


@dataclass(frozen=True)
class Customer:
    customer: str
    name: Annotated[str, Personal(subject="customer")]


def decide(command: Register, state: Customer | None) -> list[Registered | Noted]:
    return [Registered(command.customer, command.name), Noted(f"born {command.born}")]


def evolve(state: Customer | None, event: Registered | Noted) -> Customer | None:
    return Customer(event.customer, event.full_name) if isinstance(event, Registered) else state


DECIDER = Decider[Register, Registered | Noted, Customer | None](None, decide, evolve)


def account(keys: SubjectKeys) -> EventSourced[Register, Registered | Noted, Customer | None]:
    return EventSourced("account", DECIDER, keys=keys)


@pytest.fixture
def keys() -> SubjectKeys:
    made = SubjectKeys("account-keys")
    made.use_memory()
    return made


def run(keys: SubjectKeys, *commands: tuple[str, Register]) -> tuple[TopologyTestDriver, Any]:
    aggregate = account(keys)
    builder = StreamsBuilder()
    aggregate.add_to(builder)
    driver = TopologyTestDriver(builder.build())
    raw = Serdes.bytes()
    topic = driver.create_input_topic("account-commands", Serdes.string(), raw)
    for number, (key, command) in enumerate(commands):
        made = aggregate.command(key, command)
        assert NAME.encode() not in made.data
        topic.pipe_input(key, made.data, headers=command_headers(made, str(number), "/test", 0, {}))
    return driver, aggregate


def recorded(driver: TopologyTestDriver, aggregate: Any) -> list[Any]:
    from hayase.core.records import SourceRecord

    topic = driver.create_output_topic("account-events", Serdes.bytes(), Serdes.bytes())
    records = topic.read_records_to_list()
    assert all(NAME.encode() not in record.value and b"born" not in record.value for record in records)
    return [
        SourceRecord("account-events", 0, number, 0, record.key, record.value, record.headers)
        for number, record in enumerate(records)
    ]


def test_personal_fields_are_in_the_clear_for_the_program_alone(keys: SubjectKeys) -> None:
    driver, aggregate = run(keys, ("1", Register("ada", NAME)))
    with driver:
        events = [read_event(aggregate, record).event for record in recorded(driver, aggregate)]
        assert events == [Registered("ada", NAME), Noted("born 1815")]
        assert driver.store("account-state").get("1").state == Customer("ada", NAME)
        row = aggregate.state_serde().to_bytes(AggregateState("1", 2, Customer("ada", NAME)))
        assert NAME.encode() not in row


def test_a_deleted_key_makes_fields_unreadable_and_replay_goes_on(keys: SubjectKeys) -> None:
    driver, aggregate = run(keys, ("1", Register("ada", NAME)), ("2", Register("bob", "Bob")))
    with driver:
        records = recorded(driver, aggregate)
        assert keys.erase("ada") == 1
        states = {
            key: folded(
                aggregate,
                key,
                [event for each in records if (event := read_event(aggregate, each)).aggregate_id == key],
            )
            for key in ("1", "2")
        }
        assert states["1"].state == Customer("ada", "[erased]")
        assert states["2"].state == Customer("bob", "Bob")
        assert driver.store("account-state").get("1").state == Customer("ada", "[erased]")
        keys.erase("1")  # of the note, whose subject is the aggregate
        assert read_event(aggregate, records[1]).event == Noted(None)


def test_a_dead_letter_holds_no_personal_data(keys: SubjectKeys) -> None:
    aggregate = account(keys)
    builder = StreamsBuilder()
    aggregate.add_to(builder)
    with TopologyTestDriver(builder.build()) as driver:
        made = aggregate.command("1", Register("ada", NAME))
        driver.create_input_topic("account-commands", Serdes.string(), Serdes.bytes()).pipe_input("1", made.data)
        letters = driver.create_output_topic("account-dead-letters", Serdes.bytes(), Serdes.bytes())
        (record,) = letters.read_records_to_list()
        assert NAME.encode() not in record.value
        keys.erase("ada")
        assert aggregate.command_types.decode("Register", record.value) == Register("ada", "[erased]", 0)


def test_a_field_that_was_changed_is_refused(keys: SubjectKeys) -> None:
    data = msgspec.json.decode(account(keys).command("1", Register("ada", NAME)).data)
    data["name"]["data"] = data["name"]["data"][:-8] + "AAAAAAA="
    with pytest.raises(SerializationError, match="its seal does not fit its key"):
        account(keys).command_types.decode("Register", msgspec.json.encode(data))


def test_without_a_subject_nothing_is_written(keys: SubjectKeys) -> None:
    with pytest.raises(SerializationError, match="NO_SUBJECT"):
        account(keys).command("1", Register("", NAME))


def test_personal_fields_without_keys_are_refused() -> None:
    with pytest.raises(TopologyError, match="Register has personal fields, name, born"):
        EventSourced("account", DECIDER)
    with pytest.raises(TopologyError, match="INVALID_PERSONAL_FIELD"):
        CommandTarget("account", [Register])


def test_a_subject_that_is_no_field_is_refused(keys: SubjectKeys) -> None:
    @dataclass
    class Odd:
        name: Annotated[str, Personal(subject="owner")]

    with pytest.raises(TopologyError, match="'owner', is no field of Odd"):
        CommandTarget("odd", [Odd], keys=keys)


def test_a_type_without_a_value_for_erased_fields_is_refused(keys: SubjectKeys) -> None:
    @dataclass
    class Odd:
        age: Annotated[int, Personal()]

    with pytest.raises(TopologyError, match="say what is read after an erasure"):
        CommandTarget("odd", [Odd], keys=keys)


def test_keys_that_are_not_bound_say_what_to_do() -> None:
    with pytest.raises(ConfigError, match=r"KEYS_NOT_BOUND.*keys.bind\(settings\)"):
        account(SubjectKeys("account-keys")).command("1", Register("ada", NAME))


class Accounts(Events):
    """The events of accounts, filled by hand."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.log.create_topic("account-events", 2, {"retention.ms": "-1"})
        self.keys = SubjectKeys("account-keys")
        self.keys.bind(self.settings)
        self.aggregate = account(self.keys)

    def register(self, key: str, event: Registered | Noted) -> None:
        from hayase.log.protocol import OutputBatch

        self._versions[key] = version = self._versions.get(key, 0) + 1
        name = type(event).__name__
        headers = event_headers(key, version, name, 1, version)
        data = self.aggregate.event_types.seal(name, event, key)
        writer = self.log.writer()
        writer.append([OutputBatch("account-events", [key.encode()], [data], [version], None, [headers])])
        writer.close()

    def close(self) -> None:
        self.keys.close()
        self.log.close()


@pytest.fixture
def accounts(tmp_path: Path) -> Iterator[Accounts]:
    made = Accounts(tmp_path)
    yield made
    made.close()


@dataclass
class AccountRow:
    account: str
    customer: str | None
    name: str | None


def project(recorded: Any) -> object:
    event = recorded.event
    return AccountRow(recorded.aggregate_id, event.customer, event.full_name) if isinstance(event, Registered) else None


def accounts_model(accounts: Accounts, folder: Path) -> ReadModel:
    target = SqliteTable(AccountRow, "account", folder / "shop.db")
    return ReadModel(
        "accounts", accounts.aggregate, project, target, on_erased=lambda subject: Delete(account=f"of-{subject}")
    )


def rows(folder: Path) -> list[tuple[Any, ...]]:
    with contextlib.closing(sqlite3.connect(folder / "shop.db")) as database:
        return database.execute("SELECT account, name FROM accounts ORDER BY account").fetchall()


@pytest.mark.long
def test_read_models_are_told_of_an_erasure(accounts: Accounts, tmp_path: Path) -> None:
    model = accounts_model(accounts, tmp_path)
    for customer in ("ada", "bob"):
        accounts.register(f"of-{customer}", Registered(customer, customer.title()))
    fill(model, accounts)
    assert rows(tmp_path) == [("of-ada", "Ada"), ("of-bob", "Bob")]
    accounts.keys.erase("ada")
    fill(model, accounts)
    assert rows(tmp_path) == [("of-bob", "Bob")]


def test_what_another_process_erased_is_forgotten_here(accounts: Accounts) -> None:
    made = accounts.aggregate.command("1", Register("ada", NAME))
    other = SubjectKeys("account-keys")
    other.bind(accounts.settings)
    assert other.erase("ada") == 1
    other.close()
    accounts.keys.refresh()
    assert accounts.aggregate.command_types.decode("Register", made.data) == Register("ada", "[erased]", 0)
    assert accounts.aggregate.command("1", Register("ada", NAME)).data != made.data


def test_an_erasure_is_done_when_the_topic_of_keys_is_compacted(accounts: Accounts, tmp_path: Path) -> None:
    accounts.register("1", Registered("ada", NAME))
    assert accounts.keys.status("ada").erased_ms is None
    accounts.keys.erase("ada")
    status = accounts.keys.status("ada")
    assert (status.done, status.keys_left) == (False, ("0@0",))
    _compact(accounts)
    status = accounts.keys.status("ada")
    assert status.done
    assert (status.tiers, status.backups) == ((), (BACKUPS,))


def _compact(accounts: Accounts) -> None:
    import time

    log: Any = accounts.log
    log.clean(time.time_ns() // 1_000_000 + 120_000)


def test_a_topic_of_keys_that_expires_is_refused(accounts: Accounts) -> None:
    accounts.register("1", Registered("ada", NAME))
    accounts.log.alter_topic_config("account-keys", {"cleanup.policy": "delete"})
    with pytest.raises(ConfigError, match="KEYS_NOT_COMPACTED"):
        accounts.keys.erase("ada")


def test_an_application_erases_and_reports(accounts: Accounts) -> None:
    app = PatternsApp(accounts.aggregate, {"application.id": "accounts", "log.dir": accounts.settings.log_dir})
    accounts.register("1", Registered("ada", NAME))
    status = app.erase("ada")
    assert isinstance(status, ErasureStatus)
    assert status.erased_ms is not None
    assert app.erasure_status("bob").erased_ms is None


def test_tiers_are_named_with_what_they_hold_apart_from_backups(accounts: Accounts, tmp_path: Path) -> None:
    tier = {"remote.storage.enable": "true", "remote.storage.url": str(tmp_path / "old")}
    accounts.log.alter_topic_config("account-events", tier)
    accounts.register("1", Registered("ada", NAME))
    app = PatternsApp(accounts.aggregate, {"application.id": "accounts", "log.dir": accounts.settings.log_dir})
    status = app.erase("ada")
    held = f"account-events in {tmp_path / 'old'}: encrypted fields, which nothing reads once their keys are gone"
    assert (status.tiers, status.backups) == ((held,), (BACKUPS,))


@pytest.mark.long
@settings(max_examples=10, deadline=None)
@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["register", "erase"])), max_size=12))
def test_random_erasures_leave_what_was_written_after_them(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, str]]
) -> None:
    folder = tmp_path_factory.mktemp("erasures")
    accounts = Accounts(folder)
    model = accounts_model(accounts, folder)
    expected: dict[str, str] = {}
    for number, (customer, step) in enumerate(steps):
        if step == "register":
            accounts.register(f"of-{customer}", Registered(customer, f"{customer}{number}"))
            expected[f"of-{customer}"] = f"{customer}{number}"
        else:
            fill(model, accounts)
            accounts.keys.erase(customer)
            expected.pop(f"of-{customer}", None)
            fill(model, accounts)
    fill(model, accounts)
    assert rows(folder) == sorted(expected.items())
    accounts.close()


def test_rows_are_verified_after_an_erasure(accounts: Accounts, tmp_path: Path) -> None:
    target = SqliteTable(AccountRow, "account", tmp_path / "shop.db")
    model = ReadModel("accounts", accounts.aggregate, project, target)
    accounts.register("1", Registered("ada", NAME))
    accounts.keys.erase("ada")
    fill(model, accounts)
    assert rows(tmp_path) == [("1", "[erased]")]
    assert verify(model, accounts.settings).different == 0


def test_a_personal_field_whose_type_cannot_be_found_is_refused() -> None:
    class Local:
        email: Annotated[str, Personal(), Missing]  # type: ignore[name-defined] # noqa: F821

    with pytest.raises(TopologyError) as refused:
        personal_fields(Local)
    assert refused.value.condition == "INVALID_PERSONAL_FIELD"


def test_an_erasure_while_a_command_is_decided_erases_what_the_process_has_read(keys: SubjectKeys) -> None:
    erasing = [False]

    def decide_and_erase(command: Register, state: Customer | None) -> list[Registered | Noted]:
        if erasing[0]:
            keys.erase("ada")  # as another process may at any moment
        return [Registered("ada", command.name if state is None else state.name)]

    decider = Decider[Register, Registered | Noted, Customer | None](None, decide_and_erase, evolve)
    aggregate = EventSourced("account", decider, keys=keys)
    with TopologyTestDriver(aggregate.topology()) as driver:
        topic = driver.create_input_topic("account-commands", Serdes.string(), Serdes.bytes())
        for number, name in enumerate((NAME, "of a later one")):
            erasing[0] = number == 1
            made = aggregate.command("1", Register("ada", name))
            topic.pipe_input("1", made.data, headers=command_headers(made, str(number), "/test", 0, {}))
        events = [read_event(aggregate, record).event for record in recorded(driver, aggregate)]
        assert events == [Registered("ada", "[erased]"), Registered("ada", "[erased]")]
        assert driver.store("account-state").get("1").state == Customer("ada", "[erased]")


def test_what_is_written_after_an_erasure_is_read_in_spite_of_what_was_read_before_it(keys: SubjectKeys) -> None:
    driver, aggregate = run(keys, ("1", Register("ada", NAME)))
    with driver:
        keys.erase("ada")
        made = aggregate.command("1", Register("ada", "Ada again"))
        topic = driver.create_input_topic("account-commands", Serdes.string(), Serdes.bytes())
        topic.pipe_input("1", made.data, headers=command_headers(made, "b", "/test", 0, {}))
        assert driver.store("account-state").get("1").state == Customer("ada", "Ada again")


def test_records_of_others_in_the_topic_of_keys_are_left_out(accounts: Accounts) -> None:
    from hayase.log.protocol import OutputBatch

    sealed = accounts.aggregate.command("1", Register("ada", NAME))
    writer = accounts.log.writer()
    odd: list[tuple[bytes | None, bytes | None]] = [
        (b"\xff", b"x"), (b"abc", b"no json"), (b"abc", b'{"subject":"ada","key":"AAAA"}'),
        (b"abc", b'{"subject":"ada","key":"!"}'), (b"erased/bob", b"no json"), (b"erased/bob", b'{"subject":1}'),
    ]  # fmt: skip
    rows = [key for key, _ in odd], [value for _, value in odd], [1] * len(odd)
    writer.append([OutputBatch("account-keys", *rows, None, None)])
    writer.close()
    accounts.keys.refresh()
    assert accounts.aggregate.command_types.decode("Register", sealed.data) == Register("ada", NAME)
    accounts.keys.erase("ada")
    assert accounts.keys.status("ada").erased_ms is not None and accounts.keys.status("bob").erased_ms is None
    for place, end in accounts.log.end_offsets([TopicPartition("account-keys", 0)]).items():
        for batch in accounts.log.reader().fetch(place, 0, end):
            subjects = [accounts.keys.erased_subject(batch.record(row)) for row in range(len(batch))]
            assert [each for each in subjects if each is not None] == ["ada"]
