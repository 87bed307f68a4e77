"""The shop of `examples/shop`: its applications, customers, and the proof from topics and databases at the end."""

from __future__ import annotations

import importlib
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from threading import Event

from rich import box
from rich.console import Console
from rich.live import Live
from rich.table import Table

from hayase.app.stop_request import StopRequest
from hayase.cli.demo.display import money
from hayase.cli.demo.example import example_file
from hayase.cli.demo.folder import demo_folder
from hayase.cli.demo.shop_connections import connections
from hayase.cli.demo.shop_customers import Customers
from hayase.cli.demo.shop_databases import ShopDatabases
from hayase.cli.demo.shop_facts import Facts
from hayase.cli.demo.shop_proof import Ledger
from hayase.cli.demo.shop_services import (
    APPLICATION_ID,
    SERVICES,
    Killer,
    ShopProcesses,
    application_id,
    check_connectors,
    check_topologies,
    commands_of_services,
)
from hayase.cli.load import load_file
from hayase.cli.trace import text_lines
from hayase.core.config import StreamsConfig
from hayase.core.java import find_java
from hayase.dsl.builder import topology_of
from hayase.log.config import log_config
from hayase.log.open import open_log
from hayase.log.protocol import Log
from hayase.patterns.app import PatternsApp
from hayase.patterns.tracing import find, topics_of_patterns, tree

_SEED = 1
_PARTITIONS = 2
_TICK_S = 0.5
_PLAIN_EVERY_S = 2.0
_DATABASES_S = 60.0
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
        kill: processes are killed while they work.
        postgres: payments are a service with a PostgreSQL of its own, and read models are in another.
    """

    orders: int
    folder: Path
    apart: bool = False
    kill: bool = False
    postgres: bool = False

    @property
    def applications(self) -> list[str]:
        """The services that are applications."""
        return [name for name in SERVICES if name != "payments" or not self.postgres]


def run_shop_demo(options: ShopOptions, console: Console) -> int:
    """Run it; the exit code: 0 if the proof holds, 1 if not, 130 if interrupted.

    Raises:
        HayaseError: it could not run.
        ModuleNotFoundError: a package of an extra is missing.
    """
    for package in ("granian", "starlette", *(["psycopg"] if options.postgres else [])):
        importlib.import_module(package)  # its processes would say that it is missing, each in its own file
    find_java()
    with ExitStack() as stack:
        folder = stack.enter_context(demo_folder(options.folder))
        settings = {"log.dir": folder / "log", "state.dir": folder / "state"}
        console.print(f"services: {example_file('shop/orders.py').parent}", highlight=False, soft_wrap=True)
        log = open_log(log_config(StreamsConfig({"application.id": APPLICATION_ID, **settings})))
        stack.callback(log.close)
        _make_topics(settings)
        databases = ShopDatabases.open(stack, folder, postgres=options.postgres)
        around = connections(folder / "connectors", folder / "log", databases)
        commands = {**commands_of_services(settings, options.applications, apart=options.apart), **around.commands}
        processes = ShopProcesses(commands, folder / "output")
        with StopRequest() as stop, closing(processes):
            sparks = "a Spark each" if options.apart else "one Spark"
            beside = ", ".join(around.commands)
            started = f"starting {', '.join(options.applications)} in {sparks}, and {beside}"
            console.print(started, highlight=False, soft_wrap=True)
            processes.start()
            closed = Event()
            stack.callback(closed.set)
            customers = Customers(
                around.stock_url, around.orders_url, options.orders, _SEED, lambda: stop.asked or closed.is_set()
            )
            customers.start()

            def check() -> None:
                processes.check()
                check_connectors(around.worker_url)
                if not options.apart:
                    check_topologies(settings)
                if customers.error is not None:
                    raise customers.error

            killer = Killer(processes, options.orders, _SEED) if options.kill else None
            facts = Facts(log)
            stopped = _watch(console, check, facts, customers, options.orders, stop, killer)
            if not stopped:
                customers.join()
                _wait_for_databases(facts, databases, stop)
        if stopped:
            console.print("stopped before all orders were settled; nothing was proven")
            return 130
        if killer is not None:
            killed = ", ".join(f"{name} {count}" for name, count in sorted(Counter(killer.killed).items()))
            console.print(f"killed and started again, times: {killed or 'none'}", highlight=False)
        console.print(f"commands that were sent again, because there was no answer: {customers.repeated}")
        return _prove(console, log, databases, options.orders, folder)


def _make_topics(settings: Mapping[str, object]) -> None:
    """Make the topics of all services, of payments too where they are no application."""
    for name in SERVICES:
        topology = topology_of(load_file(example_file(f"shop/{name}.py")).topology)
        own = {"application.id": application_id(name), **settings}
        PatternsApp(topology, own, partitions=_PARTITIONS).create_topics()


def _wait_for_databases(facts: Facts, databases: ShopDatabases, stop: StopRequest) -> None:
    """Wait until the databases have caught up with the topics, if they do."""
    deadline = time.monotonic() + _DATABASES_S
    while databases.faults(facts.ledger) and time.monotonic() < deadline and not stop.wait(_TICK_S):
        facts.read()


def _watch(
    console: Console,
    check: Callable[[], None],
    facts: Facts,
    customers: Customers,
    orders: int,
    stop: StopRequest,
    killer: Killer | None,
) -> bool:
    """Show the orders by state until all are settled, or nothing happens any more; whether it was stopped before."""
    ledger, events = facts.ledger, 0
    last_event, last_line, line = time.monotonic(), 0.0, ""
    live = Live(console=console, refresh_per_second=4, transient=True) if console.is_terminal else None
    with live or ExitStack():
        while not ledger.settled(orders):
            if stop.wait(_TICK_S):
                return True
            check()
            new, now = facts.read(), time.monotonic()
            events += new
            last_event = now if new else last_event
            if not customers.is_alive() and now - last_event > _QUIET_S:
                break
            if live is not None:
                live.update(_states_table(ledger))
            elif now - last_line >= _PLAIN_EVERY_S and ledger.stories and line != _states_line(ledger):
                last_line, line = now, _states_line(ledger)
                console.print(line, highlight=False, soft_wrap=True)
            if killer is not None and (name := killer.look(events)) is not None:
                console.print(f"killed: {name}, after {events:,} events; it starts again", highlight=False)
    return False


def _prove(console: Console, log: Log, databases: ShopDatabases, orders: int, folder: Path) -> int:
    """Read the topics from their beginning, and the databases, and say what holds."""
    facts = Facts(log)
    facts.read()
    ledger = facts.ledger
    console.print(_states_table(ledger))
    faults = [*ledger.faults(), *databases.faults(ledger)]
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
        console.print("NOT proven from the topics of events and the databases:", style="bold red")
        for fault in faults:
            console.print(f"  {fault}", highlight=False, soft_wrap=True, markup=False)
        return 1
    states, sums = ledger.states(), ledger.sums
    console.print(
        "Proven from the topics of events and the databases alone: "
        f"{states['shipped']:,} orders are shipped and paid once, {states['cancelled']:,} cancelled with goods and "
        f"money back; of {sums['Restocked']:,} goods {sums['Sold']:,} are sold and the others are left; "
        f"{money(sums['Captured'])} came and {money(sums['Refunded'])} went back, which is what was shipped; "
        "read models are what the topics say; no saga is open.",
        style="green",
        highlight=False,
        soft_wrap=True,
    )
    return 0


def _states_table(ledger: Ledger) -> Table:
    table = Table(title="Orders by state", title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    states = ledger.states()
    for name in _STATES:
        table.add_column(name, justify="right", no_wrap=True)
    table.add_row(*(f"{states[name]:,}" for name in _STATES))
    return table


def _states_line(ledger: Ledger) -> str:
    states, is_open = ledger.states(), sum(not story.settled for story in ledger.stories.values())
    shown = ", ".join(f"{states[name]:,} {name}" for name in _STATES if states[name])
    return f"orders: {shown}; {is_open:,} with an open checkout"
