"""The rule that sources joined by their keys have as many partitions."""

from __future__ import annotations

from collections.abc import Callable

from hayase.sql.analysis.steps import JoinForeignKey, JoinStreams, JoinStreamTable, JoinTables, ReadSource, Step
from hayase.sql.errors import StatementError
from hayase.sql.types.sql_types import quoted_name

Partitions = Callable[[str], int | None]


def check_copartitioned(step: Step, partitions: Partitions) -> None:
    """Check all joins of a plan.

    Raises:
        StatementError: two sources that are joined by their keys have different numbers of partitions.
    """
    for before in step.inputs:
        check_copartitioned(before, partitions)
    if isinstance(step, JoinForeignKey) or not isinstance(step, JoinStreams | JoinStreamTable | JoinTables):
        return
    left, right = _leftmost(step.left), _leftmost(step.right)
    left_count, right_count = partitions(left.source.topic), partitions(right.source.topic)
    if left_count is not None and right_count is not None and left_count != right_count:
        names = quoted_name(left.source.name), quoted_name(right.source.name)
        raise StatementError(
            "NOT_COPARTITIONED",
            f"Can't join {names[0]} with {names[1]} since the number of partitions don't match. {names[0]} partitions "
            f"= {left_count}; {names[1]} partitions = {right_count}. Please repartition either one so that the number "
            "of partitions match.",
        )


def _leftmost(step: Step) -> ReadSource:
    while not isinstance(step, ReadSource):
        step = step.inputs[0]
    return step
