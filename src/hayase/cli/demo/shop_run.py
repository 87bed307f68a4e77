"""The shop of `examples/shop`: four applications, customers, and the proof from topics at the end."""

from __future__ import annotations

import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
from rich import box
from rich.console import Console
from rich.live import Live
from rich.table import Table

from hayase.app.stop_request import StopRequest
from hayase.cli.demo.display import money
from hayase.cli.demo.example import example_file
from hayase.cli.demo.folder import demo_folder
from hayase.cli.demo.shop_services import (
    APPLICATION_ID,
    SERVICES,
    Killer,
    ShopProcesses,
    application_id,
    check_topologies,
    commands_of_services,
)
from hayase.cli.load import load_file
from hayase.cli.trace import text_lines
from hayase.core.config import StreamsConfig
from hayase.core.java import find_java
from hayase.core.records import TopicPartition
from hayase.dsl.builder import topology_of
from hayase.log.config import log_config
from hayase.log.open import open_log
from hayase.log.protocol import Log
from hayase.patterns import cloud_events
from hayase.patterns.app import PatternsApp
from hayase.patterns.commands import CommandClient
from hayase.patterns.tracing import find, topics_of_patterns, tree

_SEED = 1
_PARTITIONS = 2
_AT_ONCE = 10
_TICK_S = 0.5
_PLAIN_EVERY_S = 2.0
_REPLY_TIMEOUT = timedelta(minutes=5)
_QUIET_S = 300.0
"""So long without any event means that no more is to come: longer than a step waits before it is sent again."""
_STATES = ("placed", "reserved", "paid", "dispatched", "taken back", "shipped", "cancelled")


@dataclass(frozen=True, slots=True)
class ShopOptions:
    """What the shop was asked for.

    Attributes:
        orders: how many.
        folder: where topics and state go; emptied before.
        apart: each application has a process and a Spark of its own.
        kill: services are killed while they work.
    """

    orders: int
    folder: Path
    apart: bool = False
    kill: bool = False


def run_shop_demo(options: ShopOptions, console: Console) -> int:
    """Run it; the exit code: 0 if the proof holds, 1 if not, 130 if interrupted.

    Raises:
        HayaseError: it could not run.
    """
    orders = options.orders
    with ExitStack() as stack:
        folder = stack.enter_context(demo_folder(options.folder))
        find_java()  # the services would say that it is missing, each in its own file
        settings = {"log.dir": folder / "log", "state.dir": folder / "state"}
        modules = {name: load_file(example_file(f"shop/{name}.py")) for name in SERVICES}
        customers, proof = (load_file(example_file(f"shop/{name}.py")) for name in ("customers", "proof"))
        console.print(f"services: {example_file('shop/orders.py').parent}", highlight=False, soft_wrap=True)
        log = open_log(log_config(StreamsConfig({"application.id": APPLICATION_ID, **settings})))
        stack.callback(log.close)
        for name, module in modules.items():
            own = {"application.id": application_id(name), **settings}
            PatternsApp(topology_of(module.topology), own, partitions=_PARTITIONS).create_topics()
        processes = ShopProcesses(commands_of_services(settings, apart=options.apart), folder / "output")
        facts = _Facts(log, proof)
        with StopRequest() as stop, closing(processes):
            sparks = "a Spark each" if options.apart else "one Spark"
            console.print(f"starting four applications in {sparks}")
            processes.start()
            wishes = _Customers(modules["orders"], customers, orders, settings, stop)
            wishes.start()
            killer = Killer(processes, orders, _SEED) if options.kill else None

            def check() -> None:
                processes.check()
                if not options.apart:
                    check_topologies(settings)
                if wishes.error is not None:
                    raise wishes.error

            stopped = _watch(console, check, facts, wishes, orders, stop, killer)
            wishes.join()
        if stopped:
            console.print("stopped before all orders were settled; nothing was proven")
            return 130
        if killer is not None:
            killed = ", ".join(f"{name} {count}" for name, count in sorted(Counter(killer.killed).items()))
            console.print(f"killed and started again, times: {killed or 'none'}", highlight=False)
        return _prove(console, log, proof, orders, folder)


class _Facts:
    """Reads the topics of events as they grow."""

    def __init__(self, log: Log, proof: ModuleType) -> None:
        self._log = log
        self._proof = proof
        infos = log.describe(proof.TOPICS)
        self._positions = {TopicPartition(name, n): 0 for name, info in infos.items() for n in range(info.partitions)}
        self.correlations: dict[str, str] = {}
        """Of each order, by which it is traced."""

    def new_ledger(self) -> Any:
        """An empty ledger of the example."""
        return self._proof.Ledger()

    def read(self) -> list[Any]:
        """What has come since the last time."""
        facts = []
        reader = self._log.reader()
        try:
            for partition, end in self._log.end_offsets(list(self._positions)).items():
                start, self._positions[partition] = self._positions[partition], end
                for batch in reader.fetch(partition, start, end) if end > start else ():
                    for row in range(len(batch)):
                        record = batch.record(row)
                        attributes = cloud_events.from_headers(record.headers)
                        key, kind = (record.key or b"").decode(), attributes[cloud_events.TYPE]
                        if kind == "Placed":
                            self.correlations[key] = attributes[cloud_events.CORRELATION]
                        fields = msgspec.json.decode(record.value or b"{}")
                        facts.append(self._proof.Fact(record.topic, key, kind, fields))
        finally:
            reader.close()
        return facts


class _Customers(threading.Thread):
    """Sends the goods, then orders and cancellations, a few at a time."""

    def __init__(
        self, service: ModuleType, customers: ModuleType, orders: int, settings: dict[str, Any], stop: StopRequest
    ) -> None:
        super().__init__(name="demo-customers", daemon=True)
        self._service, self._customers, self._orders = service, customers, orders
        self._settings = settings
        self._request = stop
        self.error: Exception | None = None

    def run(self) -> None:
        """Send all of it, unless there is a request to stop."""
        try:
            stock = sys.modules["shop_messages"].STOCK
            with CommandClient(stock, self._settings, source="/supplier") as client:
                client.send_many(self._customers.goods(self._orders), timeout=_REPLY_TIMEOUT)
            with CommandClient(self._service.order, self._settings, source="/customers") as client:
                wishes = list(self._customers.wishes(_SEED, self._orders))
                for first in range(0, len(wishes), _AT_ONCE):
                    if self._request.asked:
                        return
                    client.send_many(wishes[first : first + _AT_ONCE], timeout=_REPLY_TIMEOUT)
        except Exception as error:  # raised again by the main thread
            self.error = error


def _watch(
    console: Console,
    check: Callable[[], None],
    facts: _Facts,
    wishes: _Customers,
    orders: int,
    stop: StopRequest,
    killer: Killer | None,
) -> bool:
    """Show the orders by state until all are settled, or nothing happens any more; whether it was stopped before."""
    ledger, events = facts.new_ledger(), 0
    last_event, last_line, line = time.monotonic(), 0.0, ""
    live = Live(console=console, refresh_per_second=4, transient=True) if console.is_terminal else None
    with live or ExitStack():
        while not ledger.settled(orders):
            if stop.wait(_TICK_S):
                return True
            check()
            new, now = facts.read(), time.monotonic()
            ledger.add(new)
            events += len(new)
            last_event = now if new else last_event
            if not wishes.is_alive() and now - last_event > _QUIET_S:
                break
            if live is not None:
                live.update(_states_table(ledger))
            elif now - last_line >= _PLAIN_EVERY_S and ledger.stories and line != _states_line(ledger):
                last_line, line = now, _states_line(ledger)
                console.print(line, highlight=False, soft_wrap=True)
            if killer is not None and (name := killer.look(events)) is not None:
                console.print(f"killed: {name}, after {events:,} events; it starts again", highlight=False)
    return False


def _prove(console: Console, log: Log, proof: ModuleType, orders: int, folder: Path) -> int:
    """Read the topics from their beginning, and say what holds."""
    facts = _Facts(log, proof)
    ledger = facts.new_ledger()
    ledger.add(facts.read())
    console.print(_states_table(ledger))
    faults = ledger.faults()
    if ledger.sums["Placed"] != orders:
        faults.append(f"{ledger.sums['Placed']} of {orders} orders were placed")
    refunded = next((key for key, story in ledger.stories.items() if story.seen["Refunded"]), None)
    if refunded is not None:
        console.print(f"Order {refunded}, which was paid and taken back:", highlight=False)
        records = find(log, facts.correlations[refunded], topics_of_patterns(log))
        for line in text_lines(tree(records)):
            console.print(f"  {line}", highlight=False, soft_wrap=True, markup=False)
        again = f"hayase trace {facts.correlations[refunded]} --values --log-dir {folder / 'log'}"
        console.print(f"Look at it: {again}", highlight=False, soft_wrap=True)
    if faults:
        console.print("NOT proven from the topics of events:", style="bold red")
        for fault in faults:
            console.print(f"  {fault}", highlight=False, soft_wrap=True, markup=False)
        return 1
    states, sums = ledger.states(), ledger.sums
    console.print(
        f"Proven from the topics of events alone: {states['shipped']:,} orders are shipped and paid once, "
        f"{states['cancelled']:,} cancelled with goods and money back; of {sums['Restocked']:,} goods {sums['Sold']:,} "
        f"are sold and the others are left; {money(sums['Captured'])} came and {money(sums['Refunded'])} went back, "
        "which is what was shipped; no saga is open.",
        style="green",
        highlight=False,
        soft_wrap=True,
    )
    return 0


def _states_table(ledger: Any) -> Table:
    table = Table(title="Orders by state", title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    states = ledger.states()
    for name in _STATES:
        table.add_column(name, justify="right", no_wrap=True)
    table.add_row(*(f"{states[name]:,}" for name in _STATES))
    return table


def _states_line(ledger: Any) -> str:
    states, is_open = ledger.states(), sum(not story.settled for story in ledger.stories.values())
    shown = ", ".join(f"{states[name]:,} {name}" for name in _STATES if states[name])
    return f"orders: {shown}; {is_open:,} with an open checkout"
