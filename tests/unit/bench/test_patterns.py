"""The programs of the benchmark of patterns do what is counted."""

from __future__ import annotations

import itertools

import pytest
from bench import patterns
from bench.ours.accounts import AccountRow, Deposit, Deposited, Transfer, account_row, accounts, transfers

from hayase import Serdes
from hayase.patterns import ReadModel, ReadModelTestCase, SqliteTable
from hayase.patterns.command_reading import command_headers
from hayase.testing import TopologyTestDriver


def test_a_transfer_takes_four_steps_and_is_completed() -> None:
    builder, saga = transfers()
    made = saga.start("t1", Transfer(5))
    with TopologyTestDriver(builder.build()) as driver:
        raw = Serdes.bytes()
        starts = driver.create_input_topic(saga.commands_topic, raw, raw)
        starts.pipe_input(b"t1", made.data, 0, command_headers(made, "a", "/test", 0, {}))
        told = driver.create_output_topic(saga.events_topic, Serdes.string(), Serdes.json())
        assert told.read_values_to_list()[-1]["status"] == "completed"
        balances = [driver.store("account-state").get(f"s{number}-t1").state for number in range(4)]
    assert balances == [-5, -5, 5, 5]


def test_the_read_model_has_the_last_change() -> None:
    model = ReadModel("accounts", accounts(), account_row, SqliteTable(AccountRow, "account", "unused.db"))
    ReadModelTestCase(model).given("a1", Deposited(3), Deposited(4)).then(AccountRow("a1", 2, 4))
    assert accounts().command("a1", Deposit(3)).type == "Deposit"


def test_a_rate_leaves_out_the_time_before_anything_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    now = itertools.count(0.0, 1.0)
    monkeypatch.setattr(patterns.time, "perf_counter", lambda: next(now))
    monkeypatch.setattr(patterns.time, "sleep", lambda _: None)
    slow, quick = iter([0] * 50 + [10, 60, 110]), iter([10, 60, 110])
    assert patterns._rate(lambda: next(slow), 110) == patterns._rate(lambda: next(quick), 110)
    assert patterns._rate(lambda: 7, 7) > 0
