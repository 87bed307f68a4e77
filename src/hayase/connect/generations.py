"""Generations of a connector: a start, a reconfiguration or a change of offsets makes all earlier tasks powerless.

A task publishes under the markers `generation * 2**40 + n`, n = 1, 2, 3, …; a generation begins when the marker n = 0
is published for every task id that the connector ever had. The argument is in
`docs/decisions/20261125-connectors.md`.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence

from hayase.connect.exceptions import ConnectError
from hayase.core.errors import CheckpointError, LogError
from hayase.log.protocol import EpochWriter, Log, Marker, OutgoingBatch, is_superseded

_BITS = 40
_ATTEMPTS = 5


class SupersededError(ConnectError):
    """Another generation of the connector has begun: this task must stop, and may not load offsets and go on."""


def identity(group: str, connector: str) -> str:
    """Whose markers they are: the same for every start of a connector, also after it was deleted and made again."""
    return f"connect/{group}/{connector}"


def marker_number(generation: int, n: int) -> int:
    """The number of the n-th transaction of a generation.

    Example:
        >>> marker_number(1, 2) - marker_number(1, 0), marker_number(2, 0) > marker_number(1, 10**9)
        (2, True)
    """
    return (generation << _BITS) + n


def generation_of(number: int) -> int:
    """The generation of a marker's number."""
    return number >> _BITS


def has_transactions(number: int) -> bool:
    """Whether a task has published anything in the generation of its marker: n is above 0.

    Example:
        >>> has_transactions(marker_number(3, 0)), has_transactions(marker_number(3, 1))
        (False, True)
    """
    return number != marker_number(generation_of(number), 0)


def bundle_name(connector: str, task: int) -> str:
    """The name under which a task publishes; with the group before it, Connect's transactional id."""
    return f"{connector}-{task}"


class Generations:
    """Begins generations of the connectors of a group.

    Args:
        log: where markers are.
        group: the worker's `group.id`.
    """

    def __init__(self, log: Log, group: str) -> None:
        self._log = log
        self._group = group

    def markers(self, connector: str) -> dict[int, Marker]:
        """The last marker of each task id that the connector ever had."""
        found: dict[int, Marker] = {}
        for bundle, marker in self._log.markers(self._group).items():
            name, _, task = bundle.rpartition("-")
            if name == connector and task.isdecimal() and marker.checkpoint_id == identity(self._group, connector):
                found[int(task)] = marker
        return found

    def begin(self, connector: str, tasks: Iterable[int], batches: Sequence[OutgoingBatch] = ()) -> int:
        """Begin the next generation; when it returns, no task of an earlier one can publish any more.

        Args:
            connector: whose.
            tasks: ids of the tasks that the generation will have; earlier ids are fenced, too.
            batches: published in the same transaction as the marker of the lowest task id.

        Returns:
            The number of the generation.

        Raises:
            ConnectError: `GENERATION_CONTENDED`: other workers begin generations of the connector all the time.
            LogError: the log could not be reached; calling again is safe.
        """
        wanted = {*tasks, 0}
        return self._begin(connector, lambda earlier: sorted(wanted | earlier.keys()), batches)

    def begin_task(self, connector: str, task: int) -> int:
        """Begin a generation for one task only; the others go on. For a restart of that task. Raises as `begin`."""
        return self._begin(connector, lambda earlier: [task], ())

    def _begin(
        self,
        connector: str,
        tasks_of: Callable[[Mapping[int, Marker]], Sequence[int]],
        batches: Sequence[OutgoingBatch],
    ) -> int:
        writer = self._log.writer()
        try:
            for _ in range(_ATTEMPTS):
                last = self.markers(connector)
                generation = max((generation_of(marker.epoch) for marker in last.values()), default=0) + 1
                if self._fence(writer, connector, tasks_of(last), generation, batches):
                    return generation
        finally:
            writer.close()
        raise ConnectError(
            "GENERATION_CONTENDED",
            f"other workers took over the connector {_ATTEMPTS} times while this one was about to; a connector belongs "
            "to one worker of its group.id: stop the others, or give them another group.id",
            connector=connector,
        )

    def _fence(
        self,
        writer: EpochWriter,
        connector: str,
        tasks: Sequence[int],
        generation: int,
        batches: Sequence[OutgoingBatch],
    ) -> bool:
        """Publish the marker n = 0 of each task; `False` if another worker has begun this generation or a later one."""
        nonce = uuid.uuid4().hex
        for task in tasks:
            marker = Marker(identity(self._group, connector), marker_number(generation, 0), nonce)
            try:
                writer.publish_epoch(
                    self._group, bundle_name(connector, task), marker, batches if task == tasks[0] else ()
                )
            except (CheckpointError, LogError) as error:
                if not is_superseded(error):
                    raise
                return False
        return True
