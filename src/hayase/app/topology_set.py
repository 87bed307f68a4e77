"""The topologies of a shared runtime: their names, programs and wanted states, and what its checkpoint remembers."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hayase.app.failure_recovery import UncaughtExceptionHandler
from hayase.app.membership import Member, Membership
from hayase.app.named_topology import NamedTopology
from hayase.core.config import StreamsConfig
from hayase.core.errors import CheckpointError, HayaseError, TopologyError
from hayase.topology.topology import Topology

if TYPE_CHECKING:
    from hayase.app.app import StateListener


@dataclass(frozen=True, slots=True)
class Program:
    """What a topology is started with, again and again.

    Attributes:
        lost: why there is no program: what the checkpoint remembers cannot be loaded; each start fails with it.
    """

    topology: Topology
    settings: Mapping[str, Any]
    application_id: str | None
    listener: StateListener | None = None
    handler: UncaughtExceptionHandler | None = None
    delete_removed_stores: bool = False
    lost: HayaseError | None = None

    def made(self, name: str, config: StreamsConfig) -> NamedTopology:
        """A start of it that has not begun."""
        app = NamedTopology(name, self.topology, config, self.lost)
        if self.delete_removed_stores:
            app.delete_removed_stores()
        if self.listener is not None:
            app.set_state_listener(self.listener)
        if self.handler is not None:
            app.set_uncaught_exception_handler(self.handler)
        return app


@dataclass(slots=True)
class _Change:
    """The lock of a name, and how many threads have it or wait for it."""

    lock: threading.RLock = field(default_factory=threading.RLock)
    threads: int = 0


class TopologySet:
    """Which topologies there are, with the present start of each. Thread-safe; starts and closes none of them.

    What starts, closes or removes a topology does so within `changing`, so that calls of several threads for one name
    come one after the other. Pausing waits for no other call: a start that is put into the set is paused if it is
    wanted so.

    Args:
        runtime_id: the `application.id` of the runtime.
        config_of: the settings of a topology, by its name and program.
    """

    def __init__(self, runtime_id: str, config_of: Callable[[str, Program], StreamsConfig]) -> None:
        self._runtime_id = runtime_id
        self._config_of = config_of
        self._lock = threading.RLock()
        self._programs: dict[str, Program] = {}
        self._topologies: dict[str, NamedTopology] = {}
        self._paused: set[str] = set()
        self._decided: set[str] = set()
        """Topologies of which this program has said whether they are paused: what is remembered does not count."""
        self._changes: dict[str, _Change] = {}
        self._publishing = threading.Lock()
        self._membership: Membership | None = None
        self._kept: dict[str, tuple[Program, str]] = {}

    @property
    def topologies(self) -> dict[str, NamedTopology]:
        """The topologies as they are now, by name."""
        with self._lock:
            return dict(self._topologies)

    def __contains__(self, name: str) -> bool:
        with self._lock:
            return name in self._topologies

    def topology(self, name: str) -> NamedTopology:
        """A topology as it is now.

        Raises:
            TopologyError: `UNKNOWN_TOPOLOGY`.
        """
        with self._lock:
            if name not in self._topologies:
                raise TopologyError(
                    "UNKNOWN_TOPOLOGY",
                    f"the runtime {self._runtime_id!r} has no topology {name!r}; it has "
                    f"{', '.join(sorted(self._topologies)) or 'none'}",
                )
            return self._topologies[name]

    def program(self, name: str) -> Program:
        """What a topology is started with.

        Raises:
            TopologyError: `UNKNOWN_TOPOLOGY`.
        """
        with self._lock:
            self.topology(name)
            return self._programs[name]

    @contextmanager
    def changing(self, name: str) -> Iterator[None]:
        """A change of a topology: none of another thread begins meanwhile."""
        with self._lock:
            change = self._changes.setdefault(name, _Change())
            change.threads += 1
        try:
            with change.lock:
                yield
        finally:
            with self._lock:
                change.threads -= 1
                if not change.threads:
                    del self._changes[name]

    def is_awaited(self, name: str) -> bool:
        """Whether another thread waits for the end of the change of a topology that is at work."""
        with self._lock:
            return name in self._changes and self._changes[name].threads > 1

    def make(self, name: str, program: Program) -> NamedTopology:
        """A start of a topology that is not in the set."""
        return program.made(name, self._config_of(name, program))

    def add(self, name: str, program: Program, *, paused: bool | None = None) -> NamedTopology:
        """Put a new topology into the set.

        Args:
            name: its name.
            program: what it is started with.
            paused: whether it is to be paused; `None`: as it is remembered.

        Raises:
            TopologyError: `TOPOLOGY_EXISTS`.
        """
        app = self.make(name, program)
        with self._lock:
            self._check_new(name, app)
            if paused is not None:
                self._decide(name, paused)
            self.put(name, program, app)
        return app

    def put(self, name: str, program: Program, app: NamedTopology) -> None:
        """Have a start take the place of what is in the set under that name."""
        with self._lock:
            self._programs[name], self._topologies[name] = program, app
            if name in self._paused:
                app.pause()

    def remove(self, name: str) -> None:
        """Forget a topology."""
        with self._lock:
            del self._programs[name], self._topologies[name]
            self._paused.discard(name)
            self._decided.discard(name)

    def set_paused(self, name: str, paused: bool) -> None:
        """Have a topology paused, or go on, at this start and later ones.

        Raises:
            TopologyError: `UNKNOWN_TOPOLOGY`.
        """
        with self._lock:
            app = self.topology(name)
            self._decide(name, paused)
            if paused:
                app.pause()
            else:
                app.resume()

    def _decide(self, name: str, paused: bool) -> None:
        self._decided.add(name)
        if paused:
            self._paused.add(name)
        else:
            self._paused.discard(name)

    def is_paused(self, name: str) -> bool:
        """Whether a topology is to be paused."""
        with self._lock:
            return name in self._paused

    def recall(self, membership: Membership, *, programs: bool) -> None:
        """Take what the checkpoint remembers, and publish there from now on.

        Args:
            membership: what it remembers.
            programs: also take the topologies that are not in the set.
        """
        self._membership = membership
        for name, member in membership.members.items():
            with self._lock:
                if member.paused and name not in self._decided:
                    self._paused.add(name)
                    if name in self._topologies:
                        self._topologies[name].pause()
            if programs and name not in self:
                self._recall_program(membership, name, member)

    def _recall_program(self, membership: Membership, name: str, member: Member) -> None:
        default = f"{self._runtime_id}-{name}"
        adopted = None if member.application_id == default else member.application_id
        try:
            topology, settings = membership.program(member.program)
            program = Program(topology, settings, adopted)
            app = self.make(name, program)
        except Exception as error:  # the others are to run; whatever it is, this one cannot
            program = Program(_of_no_topic(), {}, adopted, lost=_not_recalled(name, error))
            app = self.make(name, program)
            self._kept[name] = program, member.program
        self.put(name, program, app)

    def publish(self) -> None:
        """Have the checkpoint remember the topologies as they are now; nothing before `recall`.

        The caller has the runtime's lease.
        """
        membership = self._membership
        if membership is None:
            return
        with self._publishing:
            with self._lock:
                now = {
                    name: (program, self._topologies[name].config.application_id, name in self._paused)
                    for name, program in self._programs.items()
                }
            kept = {name: self._digest(membership, name, program) for name, (program, _, _) in now.items()}
            self._kept = {name: (now[name][0], digest) for name, digest in kept.items()}
            membership.publish(
                {name: Member(application_id, kept[name], paused) for name, (_, application_id, paused) in now.items()}
            )

    def _digest(self, membership: Membership, name: str, program: Program) -> str:
        known, digest = self._kept.get(name, (None, ""))
        return digest if known is program else membership.keep_program(program.topology, program.settings)

    def _check_new(self, name: str, app: NamedTopology) -> None:
        if app.config.application_id == self._runtime_id:
            raise TopologyError(
                "TOPOLOGY_EXISTS",
                f"topology {name!r} would have the application.id {app.config.application_id!r}, which is the "
                "runtime's own: give the runtime another one to adopt that application",
            )
        ids = {other.config.application_id: taken for taken, other in self._topologies.items()}
        if name in self._topologies or app.config.application_id in ids:
            taken = ids.get(app.config.application_id, name)
            raise TopologyError(
                "TOPOLOGY_EXISTS",
                f"the runtime {self._runtime_id!r} has a topology {taken!r} with the application.id "
                f"{app.config.application_id!r}: remove it first, or give this one another name",
            )


def _not_recalled(name: str, error: Exception) -> HayaseError:
    condition = error.condition if isinstance(error, HayaseError) else "PROGRAM_NOT_LOADABLE"
    return CheckpointError(
        condition,
        f"topology {name!r} cannot be started from what the runtime's checkpoint remembers: {error}. To restart it "
        "does not help: replace it by its program, with its settings (it goes on with its state), or remove it",
    )


def _of_no_topic() -> Topology:
    """What stands for a topology that could not be loaded; it is never started."""
    return Topology().add_source("lost", re.compile("(?!)"))
