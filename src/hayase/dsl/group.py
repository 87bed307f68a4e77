"""Grouped streams: the stream, and the repartition that its aggregations share."""

from __future__ import annotations

from hayase.dsl.stream_state import StreamState, repartitioned


class Group:
    """A grouped stream and the repartition that its aggregations may share."""

    def __init__(self, state: StreamState, repartition_name: str | None) -> None:
        self.state = state
        self._repartition_name = repartition_name
        self._shared: StreamState | None = None

    def parent(self, store: str) -> StreamState:
        """The stream to aggregate: repartitioned if needed, once if the repartition has a name of its own."""
        if not self.state.rekeyed:
            return self.state
        if self._repartition_name is None:
            return repartitioned(self.state, store)
        if self._shared is None:
            self._shared = repartitioned(self.state, self._repartition_name)
        else:
            self.state.graph.repartition_names(self._repartition_name)  # Kafka Streams counts on
        return self._shared
