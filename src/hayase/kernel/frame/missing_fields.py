"""Fields that expressions ask for and values without a schema do not have.

They count as null, and are most likely misspelt.
"""

from __future__ import annotations

import difflib
import logging
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

from hayase.core.metrics import MISSING_FIELDS, Metrics

_LOG = logging.getLogger("hayase.task")

_FIELDS_MAX = 20


class MissingFields:
    """Those of one task, for as long as it lives."""

    def __init__(self) -> None:
        self._missing: Counter[tuple[str, str]] = Counter()
        self._found: set[tuple[str, str]] = set()
        self._beside: dict[tuple[str, str], list[str]] = {}
        self._told: set[tuple[str, str]] = set()

    def look(self, node: str, field: str, value: Mapping[object, object]) -> None:
        """Take note of whether a value has a field that an expression of a node asks for."""
        asked = (node, field)
        if field in value:
            self._found.add(asked)
            return
        self._missing[asked] += 1
        if asked not in self._beside:
            self._beside[asked] = [str(name) for name in value]

    def report(self, metrics: Metrics) -> None:
        """End of an epoch: count them, and warn once of each that no value has had so far."""
        for (node, field), count in self._missing.items():
            metrics.add(MISSING_FIELDS, node, count)
            if (node, field) not in self._found and (node, field) not in self._told:
                self._told.add((node, field))
                _warn(node, field, count, self._beside[node, field])
        self._missing.clear()


def _warn(node: str, field: str, count: int, beside: list[str]) -> None:
    close = difflib.get_close_matches(field, beside, 1)
    _LOG.warning(
        "an expression of %s asks for the field %r, which %s; it counts as null. The first of them has the fields "
        "%s.%s Give the serde a schema, then a field that is not there is an error when the topology is built",
        node,
        field,
        "no value has had yet" if count == 1 else f"none of {count} values has had",
        ", ".join(beside[:_FIELDS_MAX]) or "(none)",
        f" Is it {close[0]!r}?" if close else "",
        extra={"node": node, "once": f"{node}/{field}"},
    )


_collector: ContextVar[MissingFields | None] = ContextVar("hayase_missing_fields", default=None)


@contextmanager
def collecting(collector: MissingFields) -> Iterator[None]:
    """Inside, what is made to evaluate expressions takes note in this collector."""
    token = _collector.set(collector)
    try:
        yield
    finally:
        _collector.reset(token)


def collector() -> MissingFields | None:
    """Where to take note; `None` if missing fields are not counted."""
    return _collector.get()
