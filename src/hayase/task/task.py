"""A task: one partition of a sub-topology, whatever its form; and the tasks of a bundle, which may live on."""

from __future__ import annotations

import logging
from typing import Protocol

from hayase.core.errors import HayaseError
from hayase.core.logs import log_context
from hayase.task.column_task import ColumnTask
from hayase.task.compiled_subtopology import CompiledSubtopology
from hayase.task.input_merge import EdgeInputs, TopicInputs
from hayase.task.plan import Form, TaskPlan
from hayase.task.row_task import RowTask
from hayase.task.task_context import TaskContext

_LOG = logging.getLogger("hayase.task")


class Task(Protocol):
    """Runs epochs of one partition of a sub-topology.

    An epoch that fails leaves it unusable, except for `close`.
    """

    @property
    def form(self) -> Form:
        """How it runs."""

    def run_epoch(self, context: TaskContext, topic_inputs: TopicInputs, edge_inputs: EdgeInputs) -> None:
        """Run one epoch: its outputs, rows for other tasks and changes of state are in `context` afterwards.

        Args:
            context: of this epoch, with the sub-topology.
            topic_inputs: see TopicInputs.
            edge_inputs: see EdgeInputs.
        """

    def close(self) -> None:
        """Close the user's processors, all of them; the task cannot be used any more.

        Raises:
            ProcessingError: `PROCESSOR_FAILED`: the first that failed.
        """


def make_task(subtopology: CompiledSubtopology, partition: int) -> Task:
    """A task in the form that the compiler chose."""
    columns = subtopology.columns
    return RowTask(partition) if columns is None else ColumnTask(columns, partition)


class LivingTasks:
    """The tasks of one bundle. Those with processors live on from epoch to epoch, as in Kafka Streams.

    Processors may remember what they like of the epochs that they have seen. So they end where that would not be what
    happened: an attempt that failed, one that adopted another's work, epochs that another process has run meanwhile.
    The next epoch then begins with new ones.
    """

    def __init__(self, subtopology: CompiledSubtopology) -> None:
        self._subtopology = subtopology
        self._tasks: dict[str, Task] = {}
        self._seen_to: int | None = None

    def get(self, plan: TaskPlan, subtopology: CompiledSubtopology) -> Task:
        """A task of the bundle; a new one in every epoch if there are no processors in it.

        Args:
            plan: of the task.
            subtopology: in the form for this epoch.
        """
        if not self._subtopology.timed:
            return make_task(subtopology, plan.partition)
        task = self._tasks.get(plan.id)
        if task is None:
            task = self._tasks[plan.id] = make_task(self._subtopology, plan.partition)
        return task

    def continue_from(self, epoch: int) -> None:
        """The state is after that epoch: tasks that have not seen all epochs up to it leave."""
        if self._seen_to != epoch:
            self.leave()

    def came_through(self, epoch: int) -> None:
        """The epoch that they have just run is part of the state."""
        self._seen_to = epoch

    def leave(self) -> None:
        """Close the processors of all. What fails in it is logged: it belongs to no epoch."""
        tasks, self._tasks, self._seen_to = self._tasks, {}, None
        for task_id, task in tasks.items():
            with log_context(task=task_id):
                try:
                    task.close()
                except HayaseError as error:
                    _LOG.warning("%s", error)
