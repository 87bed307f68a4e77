"""Runs ksqlDB's cases and prints which fail.

python -m tests.ksqldb.run [DIR] [--tiers 1,2,3] [--kind query|sql|rest] [--engine driver|spark] [--form rows|columns]
    [--cut each|runs|random] [--filter TEXT] [--show N]
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.ksqldb.cases import VARIABLE, Case, CaseFolder
from tests.ksqldb.driver import Cut
from tests.ksqldb.known_failures import known_failures, unexpected_outcome
from tests.ksqldb.rest import failure_of_any
from tests.ksqldb.spark_engine import run_on_spark


@dataclass(frozen=True)
class Failed:
    """A case that did not end as expected."""

    case: Case
    problem: str


def run(
    cases: Iterable[Case],
    known: Mapping[str, str],
    form: str = "rows",
    cut: Cut = "each",
    forms: Counter[str] | None = None,
) -> tuple[list[Failed], Counter[str]]:
    """The cases that fail in a form, and how many there are of each file; the rest as in `failure_of`."""
    failed, counts = [], Counter[str]()
    for case in cases:
        counts[case.file] += 1
        problem = unexpected_outcome(case.id, failure_of_any(case, form, cut, forms), known)
        if problem is not None:
            failed.append(Failed(case, problem))
    return failed, counts


def selected(folder: CaseFolder, kinds: Sequence[str], tiers: Iterable[int], text: str | None) -> list[Case]:
    """The cases of a folder that were asked for."""
    wanted = set(tiers)
    cases = (case for case in folder.cases(kinds) if case.tier in wanted)
    return [case for case in cases if text is None or text.lower() in case.id.lower()]


def print_failures(failed: Sequence[Failed], show: int) -> None:
    """The first failures one by one, then all by their problem."""
    for each in failed[:show]:
        print(f"FAILED {each.case.id} (tier {each.case.tier})")
        print("    " + "\n    ".join(each.case.statements))
        print(f"    -> {each.problem}\n")


def print_table(failed: Sequence[Failed], counts: Counter[str]) -> None:
    """Passed and failed of each file in which something fails."""
    bad = Counter(each.case.file for each in failed)
    if bad:
        print(f"{'file':40} {'passed':>7} {'failed':>7}")
    for file in sorted(bad):
        print(f"{file:40} {counts[file] - bad[file]:7} {bad[file]:7}")


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; 1 if a case fails."""
    parser = argparse.ArgumentParser(description="Runs ksqlDB's cases and prints which fail.")
    parser.add_argument(
        "folder", nargs="?", type=Path, help=f"the folder of the cases; default: ${VARIABLE}, ../shared"
    )
    parser.add_argument("--tiers", default="1,2,3,4")
    parser.add_argument("--kind", choices=["query", "sql", "rest"], action="append")
    parser.add_argument(
        "--engine",
        choices=["driver", "spark"],
        default="driver",
        help="what runs the queries: the test driver, or Spark with a broker, which takes the cases that end alike "
        "wherever epochs begin, in the form that the application has",
    )
    parser.add_argument("--form", choices=["rows", "columns"], default="rows", help="columns: where nodes have them")
    parser.add_argument(
        "--cut", choices=["each", "runs", "random"], help="how inputs become epochs; default: each, in columns runs"
    )
    parser.add_argument("--filter", help="only cases with this text in their id")
    parser.add_argument("--show", type=int, default=20, help="how many failures to print")
    parser.add_argument("--all", action="store_true", help="also what known_failures.toml lists")
    parser.add_argument("--list", type=Path, help="write id and problem of each failure to this file")
    options = parser.parse_args(arguments)
    folder = CaseFolder(options.folder) if options.folder else CaseFolder.found()
    if folder is None:
        print(f"no cases: neither beside the repository nor named by {VARIABLE}", file=sys.stderr)
        return 2
    cases = selected(
        folder, options.kind or ("query", "sql", "rest"), map(int, options.tiers.split(",")), options.filter
    )
    begin = time.monotonic()
    known = {} if options.all else known_failures()
    forms: Counter[str] = Counter()
    if options.engine == "spark":
        outcome = run_on_spark(cases, known)
        print(f"{outcome.left_out} cases left out: Spark does not take them")
        cases = list(outcome.ran)
        failed = [Failed(case, outcome.problems[case.id]) for case in cases if case.id in outcome.problems]
        counts = Counter(case.file for case in cases)
    else:
        cut = options.cut or ("runs" if options.form == "columns" else "each")
        failed, counts = run(cases, known, options.form, cut, forms)
    print_failures(failed, options.show)
    print_table(failed, counts)
    if options.list is not None:
        options.list.write_text("".join(f"{each.case.id}\t{each.problem!r}\n" for each in failed), "utf-8")
    print(", ".join(f"{name}: {count}" for name, count in sorted(forms.items())))
    print(f"{len(cases) - len(failed)} passed, {len(failed)} failed ({time.monotonic() - begin:.0f} s)")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
