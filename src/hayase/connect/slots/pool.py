"""`ConnectorSlotPool`: gives tasks to slots, and has those of a slot that is gone started elsewhere."""

from __future__ import annotations

import contextlib
import itertools
import logging
import os
import socket
import threading
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Protocol

import msgspec

from hayase.connect.herder.environment import WorkerEnvironment
from hayase.connect.herder.task_host import Report
from hayase.connect.herder.task_loops import TaskSpec
from hayase.connect.slots.messages import (
    WORKER_ENDED,
    JoinWorker,
    SlotAlive,
    SlotReport,
    SlotRequest,
    SlotSetup,
    TaskEnded,
)
from hayase.connect.slots.remote_task import RemoteTask
from hayase.core.decoding import decode_msgpack

_LOG = logging.getLogger(__name__)
_DISTRIBUTE_S = 0.1
_MOVE_S = 30.0
"""How long a task that moves is waited for before the next one may move."""
_PATIENCE_S = 5.0
"""How long tasks wait for slots that are still to come, so that those there first do not get all of them."""
_SILENT_S = 30.0
"""How long a slot may say nothing, as one that is frozen, before its tasks start elsewhere."""
_QUIET_S = 5.0
"""How long slots must have been the same before tasks are moved."""


class Listener(Protocol):
    """Where slots connect."""

    def accept(self) -> Connection:
        """The next connection; raises OSError when the listener is closed."""
        ...

    def authenticates(self, connection: Connection) -> bool:
        """Whether the other end may connect."""
        ...

    def close(self) -> None:
        """Accept no further ones."""
        ...


class ConnectorSlotPool:
    """Runs tasks in slots: the next one goes to the slot with the fewest. Thread-safe. See `TaskHost`.

    A slot that comes late gets tasks of those that have two more than it: they are started again, one after the other,
    and all others go on.

    Args:
        listener: where slots connect; closed with the pool.
        size: how many slots there are to be.
    """

    def __init__(self, listener: Listener, size: int) -> None:
        self.size = size
        self._listener = listener
        self._runs = itertools.count(1)
        self._lock = threading.RLock()
        self._slots: dict[int, _ConnectedSlot] = {}
        self._waiting: list[RemoteTask] = []
        self._setup: SlotSetup | None = None
        self._changed_s = time.monotonic()
        self._moving: tuple[str, float] | None = None
        self._closing = threading.Event()
        self._set_up = threading.Event()
        for target in (self._accept, self._distribute):
            threading.Thread(target=target, name=f"connect-slots-{target.__name__}", daemon=True).start()

    def new_task(self, env: WorkerEnvironment, spec: TaskSpec, report: Report, lost: Callable[[], None]) -> RemoteTask:
        """See `TaskHost`."""
        if self._setup is None:
            config_of_log = env.log_config
            self._setup = SlotSetup(
                dict(env.config.props),
                config_of_log.kind,
                config_of_log.location,
                dict(config_of_log.options),
                env.worker_id,
            )
            self._set_up.set()
        return RemoteTask(next(self._runs), spec, report, lost, self)

    def place(self, task: RemoteTask) -> None:
        """See `Placement`."""
        with self._lock:
            self._waiting.append(task)

    def withdraw(self, task: RemoteTask) -> None:
        """See `Placement`."""
        with self._lock:
            self._waiting = [each for each in self._waiting if each is not task]

    def processes(self) -> dict[int, int]:
        """The process of each slot that is connected."""
        with self._lock:
            return {number: slot.process for number, slot in self._slots.items()}

    def tasks(self) -> dict[int, list[str]]:
        """Names of the tasks of each slot that is connected."""
        with self._lock:
            return {number: sorted(task.name for task in slot.tasks.values()) for number, slot in self._slots.items()}

    def close(self) -> None:
        """Let the slots return; the worker has stopped its tasks. Calling again does nothing."""
        if self._closing.is_set():
            return
        self._closing.set()
        self._set_up.set()
        self._listener.close()
        with self._lock:
            slots = list(self._slots.values())
        for slot in slots:
            slot.end()

    # slots come and go

    def _accept(self) -> None:
        while not self._closing.is_set():
            try:
                connection = self._listener.accept()
            except OSError:  # it was closed
                return
            threading.Thread(target=self._serve, args=(connection,), name="connect-slot", daemon=True).start()

    def _serve(self, connection: Connection) -> None:
        slot: _ConnectedSlot | None = None
        try:
            if not self._listener.authenticates(connection):
                return
            join = decode_msgpack(connection.recv_bytes(), as_type=JoinWorker)
            self._set_up.wait()
            if self._closing.is_set() or self._setup is None:
                return
            connection.send_bytes(msgspec.msgpack.encode(self._setup))
            slot = _ConnectedSlot(join, connection)
            self._add(slot)
            while True:
                slot.take(decode_msgpack(connection.recv_bytes(), as_type=SlotReport))
        except (EOFError, OSError, msgspec.MsgspecError) as error:
            if not self._closing.is_set():
                reason = str(error) or "its process ended"
                _LOG.warning("slot %s is gone: %s", "?" if slot is None else slot.number, reason)
        finally:
            if slot is not None:
                self._remove(slot)
            connection.close()

    def _add(self, slot: _ConnectedSlot) -> None:
        with self._lock:
            before = self._slots.get(slot.number)
            self._slots[slot.number] = slot
            self._changed_s = time.monotonic()
        if before is not None:
            before.disconnect()
            before.lose_tasks()

    def _remove(self, slot: _ConnectedSlot) -> None:
        with self._lock:
            if self._slots.get(slot.number) is slot:
                del self._slots[slot.number]
            self._changed_s = time.monotonic()
        slot.gone = True
        slot.lose_tasks()

    # tasks come to slots

    def _distribute(self) -> None:
        """Give waiting tasks to slots, take them from silent ones, and move them to empty ones, until it is closed."""
        while not self._closing.wait(_DISTRIBUTE_S):
            with self._lock:
                silent = [slot for slot in self._slots.values() if slot.silent_s() > _SILENT_S]
                given = self._assigned()
                move = None if given or self._waiting else self._to_move()
            for slot in silent:
                _LOG.warning("slot %d has said nothing for %g s; its tasks start elsewhere", slot.number, _SILENT_S)
                slot.disconnect()
            for task, slot in given:
                slot.give(task)
            if move is not None:
                _LOG.info("task %s moves to a slot that has fewer", move.name)
                move.move()

    def _assigned(self) -> list[tuple[RemoteTask, _ConnectedSlot]]:
        quiet_s = time.monotonic() - self._changed_s
        if not self._slots or not self._waiting or (len(self._slots) < self.size and quiet_s < _PATIENCE_S):
            return []
        waiting, self._waiting = self._waiting, []
        given = []
        for task in waiting:
            slot = min(self._slots.values(), key=lambda each: (len(each.tasks), each.number))
            slot.tasks[task.run] = task
            if self._moving is not None and self._moving[0] == task.name:
                self._moving = None
            given.append((task, slot))
        return given

    def _to_move(self) -> RemoteTask | None:
        """A task of the fullest slot, if there is one that has two fewer."""
        now_s = time.monotonic()
        if not self._slots or now_s - self._changed_s < _QUIET_S:
            return None
        if self._moving is not None and now_s - self._moving[1] < _MOVE_S:  # it is between two slots
            return None
        by_load = sorted(self._slots.values(), key=lambda each: (len(each.tasks), each.number))
        if len(by_load[-1].tasks) - len(by_load[0].tasks) < 2:
            return None
        task = list(by_load[-1].tasks.values())[-1]
        self._moving = task.name, now_s
        return task


class _ConnectedSlot:
    """A slot that is connected, with its tasks."""

    def __init__(self, join: JoinWorker, connection: Connection) -> None:
        self.number = join.slot
        self.process = join.process
        self.tasks: dict[int, RemoteTask] = {}
        self.gone = False
        self._heard_s = time.monotonic()
        self._connection = connection
        self._sending = threading.Lock()

    def give(self, task: RemoteTask) -> None:
        """Start a task here."""
        task.give(self._send)
        if self.gone:
            self.lose_tasks()
        elif task.over:  # it was stopped before it came here
            self.tasks.pop(task.run, None)

    def take(self, report: SlotReport) -> None:
        """Take in what the slot says."""
        self._heard_s = time.monotonic()
        if isinstance(report, SlotAlive):
            return
        task = self.tasks.get(report.run)
        if task is None:
            return
        task.take(report)
        if isinstance(report, TaskEnded):
            self.tasks.pop(report.run, None)

    def lose_tasks(self) -> None:
        """Its tasks are lost."""
        while self.tasks:
            with contextlib.suppress(KeyError):
                self.tasks.popitem()[1].lose()

    def silent_s(self) -> float:
        """For how long it has said nothing."""
        return time.monotonic() - self._heard_s

    def disconnect(self) -> None:
        """Break the connection: the thread that reads from it sees its end."""
        with contextlib.suppress(OSError), socket.socket(fileno=os.dup(self._connection.fileno())) as opened:
            opened.shutdown(socket.SHUT_RDWR)

    def end(self) -> None:
        """Let the process return."""
        with contextlib.suppress(OSError), self._sending:
            self._connection.send_bytes(WORKER_ENDED)

    def _send(self, request: SlotRequest) -> None:
        with contextlib.suppress(OSError), self._sending:  # the thread that reads notices that the slot is gone
            self._connection.send_bytes(msgspec.msgpack.encode(request))
