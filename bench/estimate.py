"""How long a benchmark takes."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from bench.run import Options
from bench.scenarios import Input, Scenario

_USUAL_RECORDS = 3_000_000
_FIXED_S = 20.0
_LOAD_S = 12.0
_LOAD_TABLE_S = 5.0


@dataclass(slots=True)
class Estimate:
    """Seconds left, from what each scenario usually takes, and from how this machine did so far."""

    options: Options
    _left: dict[tuple[str, str], float] = field(default_factory=dict)
    _done_s: float = 0.0
    _began_s: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        """The usual times."""
        loaded: Input | None = None
        for scenario in self.options.scenarios:
            for guarantee in self.options.guarantees:
                usual_s = self._usual_s(scenario)
                if scenario.input != loaded:
                    usual_s += self._share() * _LOAD_S + (_LOAD_TABLE_S if scenario.input.table else 0)
                    loaded = scenario.input
                self._left[scenario.name, guarantee] = usual_s

    def done(self, scenario: Scenario, guarantee: str) -> None:
        """A scenario has ended."""
        self._done_s += self._left.pop((scenario.name, guarantee), 0.0)

    @property
    def left_s(self) -> float:
        """What is to come."""
        pace = (time.monotonic() - self._began_s) / self._done_s if self._done_s else 1.0
        return sum(self._left.values()) * pace

    def _share(self) -> float:
        return self.options.records / _USUAL_RECORDS

    def _usual_s(self, scenario: Scenario) -> float:
        ours_s, peer_s = scenario.seconds
        of = {"ours": ours_s, "peer": peer_s}
        runs = (_FIXED_S + max(0.0, of[side] - _FIXED_S) * self._share() for side in self.options.sides_of(scenario))
        return self.options.pairs * sum(runs)


def minutes(seconds: float) -> str:
    """Rounded to what a reader cares about."""
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"
