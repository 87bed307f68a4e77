"""Tests of projections without a database."""

from __future__ import annotations

from typing import Any

from hayase.patterns.read_models.read_model import ReadModel
from hayase.patterns.read_models.rows import Row, RowFold
from hayase.patterns.read_models.sources import TableSource
from hayase.patterns.recorded_events import RecordedEvent


class ReadModelTestCase:
    """A test of a projection: given events of aggregates, then rows.

    Args:
        model: of events; its database is left alone.

    Example:
        >>> ReadModelTestCase(orders).given("17", Placed("book")).then(OrderRow("17", "book"))  # doctest: +SKIP
    """

    def __init__(self, model: ReadModel) -> None:
        if isinstance(model.source, TableSource):
            raise TypeError(
                f"the read model {model.name!r} reads a table; call its projection with TableChange(key, value)"
            )
        self._model = model
        self._fold = RowFold(model.shape)
        self._versions: dict[str, int] = {}

    def given(self, aggregate_id: str, *events: object) -> ReadModelTestCase:
        """Have events happen to an aggregate; raises ProcessingError as the projection does when it runs."""
        for event in events:
            version = self._versions[aggregate_id] = self._versions.get(aggregate_id, 0) + 1
            name, event_id = type(event).__name__, f"{aggregate_id}/{version}"
            recorded: RecordedEvent[Any] = RecordedEvent(
                aggregate_id, version, name, event, 0, 0, version - 1, event_id, "", "", "", ""
            )
            self._fold.apply(self._model.projected(recorded))
        return self

    def then(self, *rows: object) -> ReadModelTestCase:
        """Check that these are the rows, in any order.

        Args:
            rows: objects of the target's row type.

        Raises:
            AssertionError: they are others.
        """
        columns = self._model.shape.columns
        expected: list[Row] = [{name: getattr(row, name) for name in columns} for row in rows]
        there = list(self._fold.rows.values())
        for row in expected:
            if row not in there:
                raise AssertionError(f"there is no row {row!r}; the rows are {there!r}")
        if len(there) != len(expected):
            raise AssertionError(f"{len(expected)} rows were expected, and there are {len(there)}: {there!r}")
        return self
