"""Run seeds of the simulation: `python -m tests.simulation SEED [LAST]`. One seed shows its schedule.

With `--planted`, each planted bug is run until a seed finds it; `SEED` and `LAST` say which seeds.
"""

from __future__ import annotations

import argparse
import logging
import sys
import time

from tests.simulation.chaos import run_seed
from tests.simulation.planted import BUGS, MORE_BUGS, Bug


def main() -> int:
    """Run them; 1 if any failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("seed", type=int)
    parser.add_argument("last", type=int, nargs="?", help="run all seeds up to this one, and show those that fail")
    parser.add_argument("--lines", type=int, default=0, help="show only so many lines of the schedule")
    parser.add_argument("--planted", metavar="TEXT", help="the first seed that finds each bug with that in its name")
    given = parser.parse_args()
    logging.getLogger("hayase").addHandler(logging.NullHandler())
    if given.planted is not None:
        seeds = range(given.seed, (given.seed if given.last is None else given.last) + 1)
        for bug in (*BUGS, *MORE_BUGS):
            if given.planted in bug.name:
                print(f"| {bug.name} | {_found_by(bug, seeds)} |", flush=True)
        return 0
    if given.last is None:
        outcome = run_seed(given.seed)
        print("\n".join(outcome.lines[-given.lines :]))
        print(outcome.digest)
        return int(bool(outcome.problem))
    began, failed = time.perf_counter(), 0
    for seed in range(given.seed, given.last + 1):
        outcome = run_seed(seed, keep_trace=False)
        if outcome.problem:
            failed += 1
            print(f"{outcome.description}\n  {outcome.problem}", flush=True)
    count = given.last + 1 - given.seed
    print(f"{failed} of {count} seeds failed, {(time.perf_counter() - began) / count:.3f} s a seed")
    return int(failed > 0)


def _found_by(bug: Bug, seeds: range) -> str:
    """The first seed and what it finds, as two cells of a table."""
    with bug.plant():
        for seed in seeds:
            problem = run_seed(seed, keep_trace=False).problem
            if problem:
                return f"{seed} | {problem.splitlines()[0][:100]}"
    return "none |"


if __name__ == "__main__":
    sys.exit(main())
