"""Where to look when a run to the end of the input has read records and written none."""

from __future__ import annotations

from hayase.app.report import ProgressReport
from hayase.topology.nodes import ProcessorNode, SinkNode
from hayase.topology.operators import (
    ForeignKeyResolve,
    Operator,
    StreamGlobalTableJoin,
    StreamSelfJoin,
    StreamStreamJoin,
    StreamTableJoin,
    TableJoin,
    TableSuppress,
    WindowedOperator,
)
from hayase.topology.topology import Topology

_JOINS = (ForeignKeyResolve, StreamGlobalTableJoin, StreamSelfJoin, StreamStreamJoin, StreamTableJoin, TableJoin)


def nothing_written(topology: Topology, report: ProgressReport) -> str | None:
    """The line that says it; `None` if something was written, nothing was read, or nothing could be written."""
    if report.produced or not report.consumed or not any(isinstance(node, SinkNode) for node in topology.nodes):
        return None
    operators = [node.operator for node in topology.nodes if isinstance(node, ProcessorNode)]
    reasons = []
    if any(isinstance(each, TableSuppress) or _waits_for_the_end(each) for each in operators):
        reasons.append(
            "rows wait until their window closes, which takes later records: a window closes when the stream time is "
            "at its end plus grace"
        )
    if any(isinstance(each, _JOINS) for each in operators):
        reasons.append('a join may have found nothing: see "My join finds nothing" in docs/operations.md')
    if not reasons:
        reasons.append("filters, null keys and fields that are not there drop records; see `dropped-records-total`")
    return f"note: records were read, and none was written: {'; '.join(reasons)}"


def _waits_for_the_end(operator: Operator) -> bool:
    return isinstance(operator, WindowedOperator) and operator.on_close
