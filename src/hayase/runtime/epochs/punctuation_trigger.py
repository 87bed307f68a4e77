"""Epochs without input, for processors that want to be called by the wall clock.

What is due when is known where the tasks run. It comes back with the summaries of an epoch, and the driver passes it on
to the planner through the control folder.
"""

from __future__ import annotations

from collections.abc import Sequence

from hayase.core.time import Clock
from hayase.runtime.wire.planner_control import PlannerControl
from hayase.task.summary import BundleSummary
from hayase.topology.nodes import ProcessorNode
from hayase.topology.operators import UserCode
from hayase.topology.topology import Topology


class PunctuationTrigger:
    """Whether an epoch is to be begun although there is no input.

    Args:
        topology: what runs.
        control: where the driver says what is due.
        clock: the wall clock.
    """

    def __init__(self, topology: Topology, control: PlannerControl, clock: Clock) -> None:
        self._control = control
        self._clock = clock
        self._told: tuple[int, int] | None = None
        self._timed = any(isinstance(n, ProcessorNode) and isinstance(n.operator, UserCode) for n in topology.nodes)

    def tell(self, epoch: int, summaries: Sequence[bytes]) -> None:
        """The summaries of an epoch's bundles, where the planner itself has them: what is due need not be passed on."""
        if self._timed:
            due = [BundleSummary.from_bytes(data).due_ms for data in summaries]
            known = [each for each in due if each is not None]
            self._told = (epoch, min(known)) if known else None

    def due_ms(self, after: int) -> int | None:
        """When something is due as of that epoch, as far as it is known here."""
        return self._told[1] if self._told is not None and self._told[0] == after else None

    def wanted(self, after: int, *, first: bool) -> bool:
        """Of a run's first epoch: yes, it schedules the punctuations.

        Later, if something is due as of the epoch before.
        """
        if not self._timed or first:
            return self._timed
        said = (self._told, self._control.due())
        now = self._clock.now_ms()
        return any(each is not None and each[0] == after and now >= each[1] for each in said)
