"""What tests of the slot pool share: requests, and tasks and spare processes that answer them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from multiprocessing.connection import Connection

import msgspec

from hayase.log.assignments import Place
from hayase.runtime.epochs.slot_pool import SlotPool
from hayase.runtime.epochs.slot_queue import Work
from hayase.runtime.wire.slot_messages import (
    JOB_ENDED,
    Join,
    JoinAsSpare,
    JoinPool,
    OfferSpares,
    Order,
    PoolRequest,
    StartSpare,
    TopologyRequest,
    TopologyResult,
    Withdraw,
)
from hayase.runtime.wire.span_protocol import connect

WAIT_S = 20.0


def request(topology: str, level: int = 0) -> bytes:
    return msgspec.msgpack.encode(TopologyRequest(topology, {}, b"record", level, 0, [], []))


def work(topology: str, *slots: int) -> Work:
    return Work(topology, {slot: request(topology) for slot in slots})


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def waiting(pool: SlotPool, slot: int) -> int:
    """How many requests wait for a slot."""
    return len(pool._queues.slots[slot].works)


def wait() -> None:
    """Nothing is done while a pool is waited for."""


class Task(threading.Thread):
    """A Spark task in a slot: answers every request with the topology's name."""

    def __init__(
        self,
        pool: SlotPool,
        slot: int,
        job: int,
        answer: Callable[[str], TopologyResult] | None = None,
        join: Join | None = None,
        process: str = "",
    ) -> None:
        super().__init__(daemon=True)
        self.connection: Connection = connect(pool.address)
        joins = join or JoinPool(slot, job, process or f"process {slot}")
        self.connection.send_bytes(msgspec.msgpack.encode(joins))
        self.done: list[str] = []
        self.together: list[list[str]] = []
        self.places: list[dict[str, Place]] = []
        self.returned = threading.Event()
        self._answer = answer or (lambda name: TopologyResult(summaries=[name.encode()]))
        self.start()

    def run(self) -> None:
        try:
            while (message := self.connection.recv_bytes()) != JOB_ENDED:
                order = msgspec.msgpack.decode(message, type=Order)
                assert not isinstance(order, Withdraw)
                requests = [msgspec.msgpack.decode(each, type=PoolRequest) for each in order]
                names = [each.application_id for each in requests]
                self.together.append(names)
                self.places += [each.places for each in requests if isinstance(each, TopologyRequest)]
                for name in names:
                    result = self._answer(name)
                    self.done.append(name)
                    self.connection.send_bytes(msgspec.msgpack.encode(result))
        except (EOFError, OSError):
            return
        self.returned.set()


def in_thread(pool: SlotPool, some: Work) -> threading.Thread:
    thread = threading.Thread(target=pool.run, args=(some, wait), daemon=True)
    thread.start()
    return thread


class Spare(Task):
    """A spare process, as a source would start it."""

    def __init__(
        self, pool: SlotPool, order: StartSpare, answer: Callable[[str], TopologyResult] | None = None
    ) -> None:
        super().__init__(pool, order.slot, 0, answer, join=JoinAsSpare(order.slot, order.application_id))


class Source:
    """A process that starts spare processes; here it only says what it was asked for."""

    def __init__(self, pool: SlotPool) -> None:
        self._connection = connect(pool.address)
        self._connection.send_bytes(msgspec.msgpack.encode(OfferSpares("here")))
        self._sources = pool._queues.sources
        wait_until(lambda: bool(self._sources))

    def order(self) -> StartSpare:
        """The next order."""
        assert self._connection.poll(WAIT_S), "the pool has asked for no process"
        return msgspec.msgpack.decode(self._connection.recv_bytes(), type=StartSpare)

    def end(self) -> None:
        self._connection.close()
        wait_until(lambda: not self._sources)


def completed(*some: Work) -> list[bool]:
    return [each.done.wait(WAIT_S) for each in some]
