"""`hayase trace`: what a correlation id caused, over services and logs."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from tests.unit.patterns.sagas import PAYMENTS, STOCK, Checkout, Do, checkout, driven

from hayase import Serdes
from hayase.cli.main import run_cli
from hayase.core.records import Headers
from hayase.log.open import open_log
from hayase.log.protocol import Log, LogConfig, OutputBatch
from hayase.patterns.command_reading import command_headers
from hayase.patterns.tracing import find, topics_of_patterns, tree, walk


def write(log: Log, topic: str, key: bytes | None, value: bytes | None, time_ms: int, headers: Headers) -> None:
    if topic not in log.topics():
        log.create_topic(topic, 2)
    writer = log.writer()
    writer.append([OutputBatch(topic, [key], [value], [time_ms], None, [headers])])
    writer.close()


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    """A log in which a saga has reserved a book and waits for the payment, beside what does not belong to it."""
    folder = tmp_path / "log"
    log = open_log(LogConfig("embedded", str(folder)))
    start = checkout().command("17", Checkout("book"))
    first = command_headers(start, "a", "/shop", 0, {"correlationid": "visit"})
    write(log, "checkout-commands", b"17", start.data, 0, first)
    other = PAYMENTS.command("99", Do("99"))
    write(log, "payments-commands", b"99", other.data, 0, command_headers(other, "z", "/shop", 0, {}))
    with driven() as shop:
        topic = shop.driver.create_input_topic("checkout-commands", Serdes.bytes(), Serdes.bytes())
        topic.pipe_input(b"17", start.data, 0, first)
        shop.pass_time(11)  # no answer from payments
        shop.pass_time(2)  # so it is asked again
        kinds = ("commands", "events", "replies")
        sagas = [f"checkout-{kind}" for kind in kinds]
        for name in (*sagas, *(f"stock-{kind}" for kind in kinds), "payments-commands"):
            for record in shop.driver.output_queue(name):
                write(log, name, record.key, record.value, record.timestamp_ms, record.headers)
    log.close()
    return folder


def test_a_trace_is_a_tree_of_causes_with_times(log_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli(["trace", "visit", "--log-dir", str(log_dir)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "1970-01-01T00:00:00.000+00:00  command Checkout to checkout 17 (a) from /shop",
        "                      +0.000s    event Started of checkout 17 (17/0/Started/)",
        "                      +0.000s    reply accepted of checkout",
        "                      +0.000s    command Reserve to stock book (checkout:17:reserve:action:1)",
        "                      +0.000s      event StepSucceeded of checkout 17 (17/0/StepSucceeded/reserve)",
        "                      +0.000s      event Reserved of stock book (book/1)",
        "                      +0.000s      reply accepted of stock",
        "                      +0.000s      command Do to payments 17 (checkout:17:pay:action:1)",
        "                     +11.000s    event StepTimedOut of checkout 17 (17/11000/StepTimedOut/pay)",
        "                     +13.000s    command Do to payments 17 (checkout:17:pay:action:1)",
    ]


def test_the_trace_on_the_page_of_patterns_is_one_but_for_its_times(
    log_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (Path(__file__).resolve().parents[3] / "docs" / "patterns.md").read_text("utf-8")
    (shown,) = re.findall(r"^\$ hayase trace visit --log-dir data/log\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    assert run_cli(["trace", "visit", "--log-dir", str(log_dir)]) == 0
    printed = capsys.readouterr().out.splitlines()[: len(shown.splitlines())]
    time = re.compile(r"^\d{4}-\d\d-\d\dT[\d:.]+\+00:00|\+\d+\.\d{3}s|(?<=\(17/)\d+")
    assert [time.sub("", line) for line in printed] == [time.sub("", line) for line in shown.splitlines()]


def test_a_trace_as_json_names_the_cause_of_each_record(log_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli(["trace", "visit", "--json", "--values", "--log-dir", str(log_dir)]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(row["kind"], row["type"], row["cause"]) for row in rows if row["kind"] == "command"][:3] == [
        ("command", "Checkout", None), ("command", "Reserve", 1), ("command", "Do", 4)
    ]  # fmt: skip
    assert rows[0]["value"] == '{"item":"book"}' and rows[2]["status"] == "accepted"


def test_the_command_of_that_id_belongs_to_it_without_a_correlation_id(
    log_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_cli(["trace", "z", "--log-dir", str(log_dir)]) == 0
    assert "command Do to payments 99 (z) from /shop" in capsys.readouterr().out


def test_a_trace_of_nothing_ends_with_code_1(log_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli(["trace", "nothing", "--log-dir", str(log_dir)]) == 1
    assert "nothing has the correlation id 'nothing'" in capsys.readouterr().err


def test_only_the_topics_and_the_time_that_were_asked_for_are_read(
    log_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["trace", "visit", "--log-dir", str(log_dir), "--topic", "payments-commands"]
    assert run_cli([*arguments, "--since", "1970-01-01T00:00:05"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert line.endswith("(checkout:17:pay:action:1) from /checkout, caused by checkout:17:pay:timer")
    assert run_cli(["trace", "visit", "--log-dir", str(log_dir), "--topic", "other"]) == 1
    assert "topic 'other' does not exist" in capsys.readouterr().err


def test_records_that_name_each_other_as_their_cause_are_shown_once_each(log_dir: Path) -> None:
    log = open_log(LogConfig("embedded", str(log_dir)))
    made = STOCK.command("book", STOCK.command_types.decode("Reserve", b'{"order":"1"}'))
    for own, cause in (("x", "y"), ("y", "x")):
        headers = command_headers(made, own, "/odd", 0, {"correlationid": "odd", "causationid": cause})
        write(log, "stock-commands", b"book", made.data, 0, headers)
    roots = tree(find(log, "odd", topics_of_patterns(log)))
    assert sorted(each.id for each, _ in walk(roots)) == ["x", "y"]
    log.close()


def test_what_others_have_written_makes_up_no_lines_and_steers_no_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = open_log(LogConfig("embedded", str(tmp_path)))
    made = PAYMENTS.command("17\n1970-01-01  event Paid of payments 18\x1b[2J", Do("17"))
    headers = command_headers(made, "a", "/shop", 0, {"correlationid": "visit"})
    write(log, "payments-commands", made.aggregate_id.encode(), made.data, 0, headers)
    log.close()
    assert run_cli(["trace", "visit", "--log-dir", str(tmp_path)]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert r"payments 17\n1970-01-01  event Paid of payments 18\x1b[2J (a)" in line
