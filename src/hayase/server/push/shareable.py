"""Which push queries can share a run: those without state that begin where their topic ends."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from hayase.sql.analysis.push import PushPlan
from hayase.sql.analysis.steps import Filter, ReadSource, Step
from hayase.sql.functions.registry import FunctionRegistry


@dataclass(frozen=True)
class SharedQuery:
    """What push queries have in common that share a run: queries that are equal in it show the same rows.

    Attributes:
        plan: without its LIMIT, which each query has for itself.
        functions: that the plan calls.
        settings: of the statement.
    """

    plan: PushPlan
    functions: FunctionRegistry
    settings: Mapping[str, object]

    @classmethod
    def of(cls, plan: PushPlan, functions: FunctionRegistry, settings: Mapping[str, object]) -> SharedQuery | None:
        """That of a query; `None` if what it shows depends on when it began."""
        return cls(replace(plan, limit=None), functions, dict(settings)) if is_stateless(plan.step) else None


def is_stateless(step: Step) -> bool:
    """Whether the rows of a step are those of one source, or a part of them."""
    return isinstance(step, ReadSource) or (isinstance(step, Filter) and is_stateless(step.input))
