"""A task: one partition of a sub-topology, whatever its form."""

from __future__ import annotations

from typing import Protocol

from hayase.task.column_task import ColumnTask
from hayase.task.compiled_subtopology import CompiledSubtopology
from hayase.task.input_merge import EdgeInputs, TopicInputs
from hayase.task.plan import Form
from hayase.task.row_task import RowTask
from hayase.task.task_context import TaskContext


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
