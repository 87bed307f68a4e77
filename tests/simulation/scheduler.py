"""A discrete-event scheduler for real synchronous code: simulated processes are greenlets, time is a number.

Code under simulation runs unchanged until it reaches a *step*: a request to the blob store or the log, a failpoint, a
sleep. There the scheduler takes over, draws how long the step takes, and goes on with whatever is next in simulated
time. One seeded generator draws everything, so a seed is a schedule.

A process that crashes gets `Crashed` thrown into each of its greenlets. From then on every step it tries raises
`Crashed` again, before any effect; so the `finally` blocks that run on the way out free locks and read transactions of
this (real) process, as the operating system does for a killed one, and nothing else. A frozen process is not resumed
before it thaws.
"""

from __future__ import annotations

import hashlib
import heapq
import itertools
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import greenlet

WALL_CLOCK_START_MS = 1_700_000_000_000


class Crashed(BaseException):
    """The simulated process is dead. No product code catches it."""


class Stuck(Exception):
    """The simulation went on for longer than any schedule may take."""


class Process:
    """A simulated operating-system process.

    Attributes:
        name: for the trace.
        machine: number of the machine it runs on.
        pid: unlike that of any other process.
    """

    def __init__(self, sim: Sim, name: str, machine: int) -> None:
        self.sim = sim
        self.name = name
        self.machine = machine
        self.pid = sim.next_pid()
        self.alive = True
        self.frozen_until = 0.0
        self.greenlets: list[greenlet.greenlet] = []

    def spawn(self, target: Callable[[], object], delay_s: float = 0.0) -> greenlet.greenlet:
        """Run a function in this process; it begins after a delay."""

        def body() -> None:
            try:
                if self.alive:
                    target()
            except Crashed:
                pass
            finally:
                self.greenlets.remove(made)

        made = greenlet.greenlet(body, parent=self.sim.scheduler_greenlet)
        made.sim_process = self  # type: ignore[attr-defined]
        self.greenlets.append(made)
        self.sim.at(delay_s, made)
        return made

    def crash(self) -> None:
        """Kill it: at once for its other greenlets, with the next step for the one that calls this."""
        if not self.alive:
            return
        self.alive = False
        self.sim.trace(f"{self.name} CRASH")
        for each in list(self.greenlets):
            if each is not greenlet.getcurrent():
                self.sim.at(0.0, each)

    def freeze(self, seconds: float) -> None:
        """Do not schedule it for a while."""
        self.sim.trace(f"{self.name} FREEZE {seconds:g}")
        self.frozen_until = max(self.frozen_until, self.sim.now + seconds)

    @property
    def frozen(self) -> bool:
        return self.alive and self.frozen_until > self.sim.now


class Sim:
    """The scheduler.

    Args:
        seed: decides everything.
        keep_trace: keep the lines of the trace, to show them; their digest is always made.
    """

    def __init__(self, seed: int, *, keep_trace: bool = True) -> None:
        self.rng = random.Random(seed)
        self.ids = random.Random(seed + 1)
        self.now = 0.0
        self.jumped_ms = 0
        """How far the wall clocks of the machines were set forward or back."""
        self.scheduler_greenlet = greenlet.getcurrent()
        self.in_transaction = 0
        """Depth of LMDB write transactions.

        A greenlet must not be left inside, another would wait for its lock forever.
        """
        self.on_step: Callable[[Process, str], None] = lambda process, label: None
        self.slow = 0.0
        """Chance that a step takes seconds instead of milliseconds."""
        self.steps = 0
        self.lines: list[str] = []
        self._keep = keep_trace
        self._digest = hashlib.blake2b(digest_size=16)
        self._queue: list[tuple[float, int, greenlet.greenlet | Callable[[], object]]] = []
        self._sequence = itertools.count()
        self._pids = itertools.count(1000)
        self.processes: list[Process] = []

    # what simulated code sees

    def monotonic(self) -> float:
        """The clock that is never set."""
        return self.now

    def now_ms(self) -> int:
        """The wall clock (`hayase.core.time.Clock`)."""
        return WALL_CLOCK_START_MS + self.jumped_ms + int(self.now * 1000)

    def sleep(self, seconds: float) -> None:
        """Wait."""
        process = self.process
        if process is None:
            return
        if not process.alive:
            raise Crashed
        if self.in_transaction:
            return
        self.at(seconds + self.rng.random() * 0.001, greenlet.getcurrent())
        self._switch(process)

    def step(self, label: str) -> None:
        """A point where others may go on first, and where faults strike."""
        process = self.process
        if process is None:
            return
        if not process.alive:
            raise Crashed
        self.steps += 1
        self.trace(f"{process.name} {label}")
        self.on_step(process, label)
        if not process.alive:
            raise Crashed
        if self.in_transaction:
            return
        self.at(self.latency(), greenlet.getcurrent())
        self._switch(process)

    def latency(self) -> float:
        """How long a request takes."""
        if self.rng.random() < self.slow:
            return self.rng.uniform(0.2, 8.0)
        return self.rng.uniform(0.0005, 0.01)

    @property
    def process(self) -> Process | None:
        """The process that is running; `None` for the simulation itself, which no fault touches."""
        return getattr(greenlet.getcurrent(), "sim_process", None)

    def new_process(self, name: str, machine: int) -> Process:
        made = Process(self, name, machine)
        self.processes.append(made)
        return made

    def next_pid(self) -> int:
        return next(self._pids)

    # the event loop

    def at(self, delay_s: float, what: greenlet.greenlet | Callable[[], object]) -> None:
        """Have something happen later."""
        heapq.heappush(self._queue, (self.now + max(delay_s, 0.0), next(self._sequence), what))

    def run_until(self, done: Callable[[], bool], limit_s: float, steps: int = 400_000) -> None:
        """Let time go on until `done()`.

        Raises:
            Stuck: it is not done after so much simulated time, or so many steps.
        """
        deadline, most = self.now + limit_s, self.steps + steps
        while not done():
            if not self._queue or self.now > deadline or self.steps > most:
                raise Stuck(f"not done after {limit_s:g} simulated seconds, {self.steps} steps")
            self._next()

    def run_for(self, seconds: float) -> None:
        """Let time go on."""
        deadline = self.now + seconds
        self.at(seconds, lambda: None)
        while self.now < deadline and self._queue:
            self._next()

    def _next(self) -> None:
        when, _, what = heapq.heappop(self._queue)
        self.now = max(self.now, when)
        if not isinstance(what, greenlet.greenlet):
            what()
            return
        if what.dead:
            return
        process: Process = what.sim_process  # type: ignore[attr-defined]
        if process.frozen:
            self.at(process.frozen_until - self.now, what)
            return
        what.switch()

    def _switch(self, process: Process) -> None:
        self.scheduler_greenlet.switch()
        if not process.alive:
            raise Crashed

    def end(self) -> None:
        """Kill what is left, so that nothing holds on to files."""
        for process in self.processes:
            process.alive = False
            for each in list(process.greenlets):
                if each and each is not greenlet.getcurrent():  # begun, and not ended
                    each.throw(Crashed)

    # the trace

    def trace(self, line: str) -> None:
        """Write down what happened."""
        text = f"{self.now:10.4f} {line}"
        self._digest.update(text.encode())
        if self._keep:
            self.lines.append(text)

    @property
    def digest(self) -> str:
        """Of the trace so far: the same for the same seed, in any process."""
        return self._digest.hexdigest()


class SimTime:
    """Stands in for the module `time` in modules that wait."""

    def __init__(self, sim: Sim) -> None:
        self.monotonic = sim.monotonic
        self.sleep = sim.sleep
        self.perf_counter = sim.monotonic

    def time(self) -> float:
        raise AssertionError("simulated code asks a Clock for the wall clock")


class SimThreading:
    """Stands in for the module `threading`: threads are greenlets of the process that starts them."""

    Lock = threading.Lock
    RLock = threading.RLock
    get_ident = staticmethod(threading.get_ident)

    def __init__(self, sim: Sim) -> None:
        self._sim = sim

    def Thread(self, *, target: Callable[..., object], args: tuple[Any, ...] = (), **_: object) -> SimThread:
        return SimThread(self._sim, lambda: target(*args))

    def Event(self) -> SimEvent:
        return SimEvent(self._sim)

    def Condition(self) -> SimCondition:
        return SimCondition(self._sim)


class SimThread:
    def __init__(self, sim: Sim, target: Callable[[], object]) -> None:
        self._sim = sim
        self._target = target
        self._greenlet: greenlet.greenlet | None = None

    def start(self) -> None:
        process = self._sim.process
        assert process is not None
        self._greenlet = process.spawn(self._target)

    def is_alive(self) -> bool:
        return self._greenlet is not None and not self._greenlet.dead

    def join(self, timeout: float | None = None) -> None:
        deadline = self._sim.now + (timeout if timeout is not None else 1e9)
        while self.is_alive() and self._sim.now < deadline:
            if self._sim.process is None:
                return
            self._sim.sleep(0.05)


class _Waiters:
    def __init__(self, sim: Sim) -> None:
        self._sim = sim
        self._waiting: list[greenlet.greenlet] = []

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            self._sim.at(0.0, each)

    def _wait(self, timeout: float | None) -> None:
        process = self._sim.process
        assert process is not None
        if not process.alive:
            raise Crashed
        me = greenlet.getcurrent()
        self._waiting.append(me)
        if timeout is not None:
            self._sim.at(timeout, lambda: self._time_out(me))
        self._sim._switch(process)

    def _time_out(self, who: greenlet.greenlet) -> None:
        if who in self._waiting:
            self._waiting.remove(who)
            self._sim.at(0.0, who)


class SimEvent(_Waiters):
    def __init__(self, sim: Sim) -> None:
        super().__init__(sim)
        self._set = False

    def set(self) -> None:
        self._set = True
        self._wake()

    def is_set(self) -> bool:
        return self._set

    def wait(self, timeout: float | None = None) -> bool:
        if not self._set:
            self._wait(timeout)
        return self._set


class SimCondition(_Waiters):
    def __enter__(self) -> SimCondition:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def notify_all(self) -> None:
        self._wake()

    def wait_for(self, predicate: Callable[[], object], timeout: float | None = None) -> bool:
        deadline = self._sim.now + timeout if timeout is not None else None
        while not predicate():
            if deadline is not None and self._sim.now >= deadline:
                return False
            self._wait(None if deadline is None else deadline - self._sim.now)
        return True


class Mailbox(_Waiters):
    """Messages from one simulated process to another; they take a moment, and the dead read none."""

    def __init__(self, sim: Sim) -> None:
        super().__init__(sim)
        self._messages: list[Any] = []

    def put(self, message: Any) -> None:
        self._messages.append(message)
        self._wake()

    def take(self, timeout: float | None = None) -> Any:
        """The next message; `None` when none came in time."""
        deadline = self._sim.now + timeout if timeout is not None else None
        while not self._messages:
            if deadline is not None and self._sim.now >= deadline:
                return None
            self._wait(None if deadline is None else deadline - self._sim.now)
        return self._messages.pop(0)


@contextmanager
def transaction_of(sim: Sim) -> Iterator[None]:
    """Around an LMDB write transaction."""
    sim.in_transaction += 1
    try:
        yield
    finally:
        sim.in_transaction -= 1
