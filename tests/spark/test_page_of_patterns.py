"""What docs/patterns.md shows of a running application: its blocks and its command lines, with one application.

The programs of the page, which the tests of the documentation run, are the file `shop.py` here.
"""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tests.spark.place import until

from hayase.cli.load import load
from hayase.cli.main import run_cli
from hayase.core.errors import ConfigError
from hayase.patterns import PatternsApp
from hayase.patterns.read_models.runner import ReadModelState
from hayase.runtime.wire.pickling import by_value
from hayase.testing.servers import free_ports

pytestmark = pytest.mark.timeout(900)

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "patterns.md").read_text("utf-8")
START = timedelta(minutes=4)
"""Until the first reply: Spark starts first."""
OTHERS = [f"{name}-{kind}" for name in ("goods", "shipping") for kind in ("commands", "events", "replies")]
PORT = "9090"


def blocks(kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)


def block(text: str) -> str:
    """The block that is marked text and has it."""
    (found,) = (each for each in blocks("text") if text in each)
    return found


def commands(text: str) -> list[str]:
    """The command lines of a block."""
    return [line for line in block(text).replace("\\\n", " ").splitlines() if line.startswith("hayase ")]


class Shop:
    """The program of the page in a folder of its own, and its application, which runs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        program = "\n".join(blocks("python")) + "\ntopology = order.topology(checkout)\n"
        (folder / "shop.py").write_text(program)
        (folder / "hayase.toml").write_text(
            f'"application.id" = "orders"\n"log.dir" = "{folder}/data/log"\n"state.dir" = "{folder}/data/state"\n'
            '"checkpoint.fsync" = false\n"commit.interval.ms" = 0\n'
        )
        self.names: dict[str, Any] = {}

    def start(self) -> None:
        loaded = load("shop.py:topology")
        assert isinstance(loaded.module, ModuleType)
        by_value(loaded.module)
        for topic in [*OTHERS, "stock-commands"]:
            self.run(f"hayase topics create {topic} --partitions 1 --log-dir data/log")
        settings = {
            "application.id": "orders", "log.dir": "data/log", "state.dir": "data/state", "checkpoint.fsync": False,
            "commit.interval.ms": 0,
        }  # fmt: skip
        self.names = {**vars(loaded.module), "settings": settings, "datetime": datetime, "UTC": UTC}
        started = "PatternsApp(topology, settings, read_models=[orders_table])"
        assert f"`{started}`" in PAGE
        self.names["app"] = eval(started, self.names)
        self.app.start()
        self.app.commands("order").send("first", self.names["Place"]("book"), timeout=START)

    @property
    def app(self) -> PatternsApp:
        app = self.names["app"]
        assert isinstance(app, PatternsApp)
        return app

    def run(self, line: str, code: int = 0) -> None:
        """Run a command line; it ends with that code."""
        words = [word for word in shlex.split(line, comments=True) if word != "&"]
        assert run_cli(words[1:]) == code, line

    def epoch_of(self, order_id: str) -> int:
        """An epoch that is complete and has the last event of an order."""
        epoch = self.app.store("order-state").get(order_id).epoch

        def is_complete() -> bool:
            try:
                self.app.events("order").state(order_id, epoch=epoch)
            except ConfigError:  # its states are there before it is done
                return False
            return True

        until(is_complete, self.app)
        return epoch


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    folder = tmp_path_factory.mktemp("page")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        made = Shop(folder)
        made.start()
        yield made
        made.app.close()


def test_commands_by_http_are_answered_as_the_page_says(shop: Shop) -> None:
    ports = free_ports(1)
    assert ports is not None
    shown = block("cat orders.json").replace(PORT, str(ports[0]))
    cat, connect, curl = re.split(r"^\$ ", shown, flags=re.MULTILINE)[1:]
    name, config = cat.removeprefix("cat ").split("\n", 1)
    Path(name).write_text(config)
    line, answer = curl.split("\n", 1)
    command = [sys.executable, "-m", "hayase", *shlex.split(connect)[1:-1]]
    worker = subprocess.Popen([*command, "--listen", "http://127.0.0.1:0"])
    try:
        deadline = time.monotonic() + 120
        while (got := subprocess.run(shlex.split(line), capture_output=True, text=True, check=False)).returncode:
            assert time.monotonic() < deadline, got.stderr
            time.sleep(0.1)
    finally:
        worker.terminate()
        worker.wait(60)
    wanted, given = json.loads(answer), json.loads(got.stdout)
    topic, partition, offset, topic_id = given.pop("position")
    shown_topic, _, _, shown_id = wanted.pop("position")
    assert (topic, partition >= 0, offset >= 1, len(topic_id)) == (shown_topic, True, True, len(shown_id))
    assert given == wanted


def test_a_command_is_sent_and_its_reply_waited_for(shop: Shop) -> None:
    *_, send = block('send("17", Place("book"), expected_version=0').splitlines()
    exec(send.replace('"17"', '"18"'), shop.names)
    assert (shop.names["reply"].status, shop.names["reply"].versions) == ("accepted", range(1, 2))


def test_ones_own_writes_are_read_behind_the_position_of_the_reply(shop: Shop) -> None:
    code = block("orders_table.wait_for").replace('"17"', '"19"')
    exec(code.replace("timedelta(seconds=2)", "timedelta(seconds=60)"), shop.names)
    assert shop.names["reply"].status == "accepted"
    status = shop.app.read_models["orders"].status
    assert status.state is ReadModelState.RUNNING


def test_history_is_read_at_any_point(shop: Shop) -> None:
    place, pay = shop.names["Place"], shop.names["Pay"]
    sent = shop.app.commands("order")
    assert sent.send("20", place("pen")).accepted and sent.send("20", pay(5)).accepted
    events = shop.app.events("order")
    until(lambda: len(events.history("20")) == 2, shop.app)
    epoch = shop.epoch_of("20")
    lines = block('events.state("17", version=1)').replace('"17"', '"20"').replace("epoch=40", f"epoch={epoch}")
    read: list[Any] = []
    for line in lines.splitlines():
        assignment = line.startswith("events = ")
        read += [] if assignment else [eval(line, shop.names)]
        if assignment:
            exec(line, shop.names)
    history, now, (first, before, after) = read
    assert [type(each.event).__name__ for each in history] == ["Placed", "Paid"]
    assert (now.version, now.state, after) == (2, shop.names["Order"]("pen", 5), now)
    assert (first.version, first.state) == (1, shop.names["Order"]("pen"))
    assert before.version == (0 if datetime.now(UTC) > datetime(2026, 11, 24, tzinfo=UTC) else 2)


def test_the_commands_for_events_run(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    shop.app.commands("order").send("17", shop.names["Place"]("book"))  # unless it is there
    until(lambda: len(shop.app.events("order").history("17")) == 1, shop.app)
    tomorrow, epoch = (datetime.now(UTC) + timedelta(days=1)).strftime("%Y-%m-%dT%H:%M"), shop.epoch_of("17")
    lines = commands("hayase events verify") + commands("hayase events replay")
    assert len(lines) == 6
    for line in lines:
        capsys.readouterr()
        shop.run(line.replace("2026-11-24T12:00", tomorrow).replace("epoch:40", f"epoch:{epoch}"))
        assert capsys.readouterr().out
    assert {Path(name, "replay.sqlite").is_file() for name in ("noon", "forty")} == {True}


def test_the_commands_for_sagas_run(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    starts = shop.app.commands("checkout")
    assert starts.send("17", shop.names["Checkout"]("book", 5), correlation_id="visit").accepted
    lines = commands("hayase saga list")
    assert len(lines) == 4
    for line in lines:
        shop.run(line)
    capsys.readouterr()
    shop.run("hayase saga list shop.py:topology --format json")
    (row,) = map(json.loads, capsys.readouterr().out.splitlines())
    assert (row["id"], row["status"]) == ("17", "undoing")
    (trace,) = re.findall(r"^\$ (hayase trace .*)$", PAGE, re.MULTILINE)
    command = [sys.executable, "-m", "hayase", *shlex.split(trace)[1:]]
    story = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    assert "command Checkout to checkout 17" in story[0]
    assert [line for line in story if "command Reserve to goods book (checkout:17:reserve:action:1)" in line]


def test_the_commands_for_a_changed_projection_run(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    program = (shop.folder / "shop.py").read_text()
    second = re.sub(r"(orders_table = ReadModel\(.*)\)$", r"\1, version=2)", program, flags=re.MULTILINE)
    assert second != program
    (shop.folder / "shop.py").write_text(second)
    try:
        lines = commands("hayase read-models switch")
        assert len(lines) == 4
        for line in lines:
            shop.run(line)
    finally:
        (shop.folder / "shop.py").write_text(program)
    capsys.readouterr()
    shop.run("hayase read-models status shop.py:topology")
    assert "orders" in capsys.readouterr().out
    shop.run("hayase read-models verify shop.py:topology orders")


def test_states_of_a_raised_version_are_rebuilt(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    shop.app.close()
    program = (shop.folder / "shop.py").read_text()
    raised = program.replace(
        'order = EventSourced("order", orders)', 'order = EventSourced("order", orders, state_version=2)'
    )
    assert raised != program
    (shop.folder / "shop.py").write_text(raised)
    (line,) = commands("hayase events rebuild")
    shop.run(line)
    assert " states, " in capsys.readouterr().out
