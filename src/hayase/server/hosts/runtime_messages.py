"""What a server and the process of its runtime say to each other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from hayase.app.states import State
from hayase.core.errors import HayaseError

_PLAIN = (str, int, float, bool)


@dataclass(frozen=True, slots=True)
class TopologyReport:
    """How a topology is.

    Attributes:
        state: in its life.
        error: why it has ended.
        errors: the last failures: when, and what.
        consumed: records read.
        produced: records written.
        lag_records: that the topics hold beyond what is processed; `None`: not known yet.
    """

    state: State
    error: HayaseError | None = field(compare=False)
    errors: tuple[tuple[int, str], ...]
    consumed: int
    produced: int
    lag_records: int | None


@dataclass(frozen=True, slots=True)
class RuntimeReport:
    """How the runtime is.

    Attributes:
        state: in its life.
        error: why it has ended.
        topologies: those that have changed since the report before, by name.
    """

    state: State
    error: HayaseError | None
    topologies: Mapping[str, TopologyReport]


@dataclass(frozen=True, slots=True)
class Start:
    """The first message to the process.

    Attributes:
        settings: of the runtime.
    """

    settings: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Request:
    """Something that the runtime is to do.

    Attributes:
        method: of `StreamsRuntime`; `close` is the last one.
        name: of the topology; empty for the runtime itself.
        arguments: of the method, behind the name.
        options: of the method, by their names.
    """

    method: str
    name: str
    arguments: tuple[Any, ...]
    options: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a request.

    Attributes:
        report: of the topology that it is about, as it is then; `None`: it is gone, or there was none.
        error: why the request failed.
    """

    report: TopologyReport | None = None
    error: HayaseError | None = None


def sendable(error: HayaseError | None) -> HayaseError | None:
    """An error with what surely has a pickle."""
    if error is None:
        return None
    context = {name: value if isinstance(value, _PLAIN) else str(value) for name, value in error.context.items()}
    return type(error)(error.condition, error.message, **context)
