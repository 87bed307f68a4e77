"""Source of spare processes: a process that Spark's Python daemon forks before it does anything else.

A worker cannot fork one that is of use: it has threads, and open states. The source has nothing but what the daemon has
imported, so a spare process is there within milliseconds, and shares the memory of these imports. It forks one whenever
the pool of a shared runtime asks it to; workers tell it where pools are.

Spare processes end with the source, and the source with the daemon.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing.connection import Connection

import msgspec

from hayase.core.decoding import decode_msgpack
from hayase.runtime.wire.shared_options import SharedOptions
from hayase.runtime.wire.slot_messages import OfferSpares, StartSpare
from hayase.runtime.wire.span_protocol import connect
from hayase.runtime.worker.parent_death import end_with_forker

_OFFER_BYTES_MAX = 1 << 17
_LOOK_S = 1.0
_GRACE_S = 5.0
"""So long spare processes have to end by themselves when their pool is gone."""


class PoolOffer(msgspec.Struct, frozen=True):
    """Where a pool is, and what its processes have to know.

    Attributes:
        options: of the runtime.
        address: of the pool.
        path: where modules are imported from.
    """

    options: SharedOptions
    address: str
    path: list[str]


RunSpare = Callable[[PoolOffer, StartSpare], object]
"""What a spare process does."""

_to_source: socket.socket | None = None
"""This process's connection to the source of its daemon."""


def machine_of(daemon: int) -> str:
    """What tells apart where spare processes come from: a daemon, by its process id, on its machine."""
    return f"{socket.gethostname()}:{daemon}"


def start_source(run_spare: RunSpare) -> None:
    """Fork the source. Called by the daemon, when all is imported and before there are threads."""
    global _to_source  # noqa: PLW0603 - workers inherit it
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    if os.fork() == 0:
        ours.close()
        try:
            _Source(theirs, machine_of(os.getppid()), run_spare).run()
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(1)
    theirs.close()
    _to_source = ours


def offer_spares(options: SharedOptions, address: str) -> None:
    """Have the source of this worker's daemon, if there is one, fork spare processes for a pool."""
    if _to_source is not None:
        with contextlib.suppress(OSError):
            _to_source.send(msgspec.msgpack.encode(PoolOffer(options, address, sys.path)), socket.MSG_DONTWAIT)


@dataclass(slots=True, eq=False)
class _Pool:
    """A pool that the source has an order to fork for.

    Attributes:
        children: spare processes, by id.
        kill_at: when those that are left are killed, since the pool is gone.
    """

    offer: PoolOffer
    connection: Connection
    children: set[int] = field(default_factory=set)
    kill_at: float | None = None


class _Source:
    """The process: waits for offers of workers, and for orders of pools."""

    def __init__(self, offers: socket.socket, machine: str, run_spare: RunSpare) -> None:
        self._offers = offers
        self._machine = machine
        self._run_spare = run_spare
        self._pools: list[_Pool] = []
        self._selector = selectors.DefaultSelector()

    def run(self) -> None:
        """Until the daemon has ended."""
        os.setpgid(0, 0)  # no Ctrl-C of a terminal
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)  # Spark tells the daemon by its standard input which workers to kill
        os.close(null)
        end_with_forker()
        self._selector.register(self._offers, selectors.EVENT_READ)
        while True:
            waits = any(pool.children for pool in self._pools)
            for key, _ in self._selector.select(_LOOK_S if waits else None):
                if key.data is not None:
                    self._take_order(key.data)
                elif not self._take_offer():
                    return
            self._look_after_children()

    def _take_offer(self) -> bool:
        data = self._offers.recv(_OFFER_BYTES_MAX)
        if not data:
            return False
        with contextlib.suppress(msgspec.MsgspecError, OSError, EOFError):  # longer than it may be; the pool is gone
            offer = decode_msgpack(data, as_type=PoolOffer)
            if all(pool.offer.address != offer.address or pool.kill_at is not None for pool in self._pools):
                connection = connect(offer.address)
                connection.send_bytes(msgspec.msgpack.encode(OfferSpares(self._machine)))
                pool = _Pool(offer, connection)
                self._pools.append(pool)
                self._selector.register(connection, selectors.EVENT_READ, pool)
        return True

    def _take_order(self, pool: _Pool) -> None:
        try:
            order = decode_msgpack(pool.connection.recv_bytes(), as_type=StartSpare)
        except (EOFError, OSError):
            self._selector.unregister(pool.connection)
            pool.connection.close()
            pool.kill_at = time.monotonic() + _GRACE_S
            return
        child = os.fork()
        if child == 0:
            self._be_spare(pool.offer, order)
        pool.children.add(child)

    def _be_spare(self, offer: PoolOffer, order: StartSpare) -> None:
        """In the child; never returns."""
        try:
            self._selector.close()
            self._offers.close()
            for pool in self._pools:
                if not pool.connection.closed:
                    pool.connection.close()
            sys.path[:] = offer.path
            self._run_spare(offer, order)
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(0)

    def _look_after_children(self) -> None:
        for pool in self._pools:
            pool.children = {child for child in pool.children if os.waitpid(child, os.WNOHANG)[0] == 0}
            if pool.kill_at is not None and time.monotonic() > pool.kill_at:
                for child in pool.children:
                    os.kill(child, signal.SIGKILL)
        self._pools = [pool for pool in self._pools if pool.kill_at is None or pool.children]
