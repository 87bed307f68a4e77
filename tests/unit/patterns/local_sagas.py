"""Sagas, run epoch by epoch in this process: the program that commands load."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from tests.unit.patterns.local_orders import LocalOrders
from tests.unit.patterns.sagas import PAY, RESERVE, SHIP, STOCK, Checkout

from hayase import StreamsBuilder
from hayase.patterns import Saga
from hayase.topology.topology import Topology

STEPS = [replace(step, timeout=timedelta(days=30)) for step in (RESERVE, PAY, SHIP)]
"""Each epoch is a second later, and so many of them may pass before a command has run: no step may time out."""
saga = Saga("checkout", Checkout, STEPS)


def topology_of_both() -> Topology:
    """The aggregate and the saga in one topology."""
    builder = StreamsBuilder()
    STOCK.add_to(builder)
    saga.add_to(builder)
    return builder.build()


topology = topology_of_both()


class LocalSagas(LocalOrders):
    """An application with a saga that takes an epoch whenever something was sent, in a thread of its own."""

    def __init__(self, folder: Path, topology: Topology = topology) -> None:
        topics = (*STOCK.topics, *saga.topics, *_others())
        super().__init__(folder, topology=topology, topics=topics, events="stock-events")


def _others() -> tuple[str, ...]:
    return tuple(f"{name}-{kind}" for name in ("payments", "shipping") for kind in ("commands", "events", "replies"))
