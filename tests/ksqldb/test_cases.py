"""ksqlDB's cases, a file a test: tiers 1 to 3 in every run, what expects errors or infers schemas in the slow one."""

from __future__ import annotations

import pytest
from tests.ksqldb.cases import VARIABLE, CaseFolder, files_of
from tests.ksqldb.driver import Cut
from tests.ksqldb.known_failures import known_failures, unexpected_outcome
from tests.ksqldb.rest import failure_of_any

FOLDER = CaseFolder.found()
KNOWN = known_failures()


def files() -> list[str]:
    """The files of cases, as `query/joins`; one that stands for all where there are none."""
    if FOLDER is None:
        return ["none"]
    return [f"{kind}/{file.stem}" for kind in ("query", "sql", "rest") for file in files_of(FOLDER.path / kind)]


def check(file: str, tiers: set[int], form: str = "rows", cut: Cut = "each") -> None:
    if FOLDER is None:
        pytest.skip(f"ksqlDB's cases are not here: put them beside the repository, or name their folder in {VARIABLE}")
    kind, name = file.split("/")
    problems = []
    for case in FOLDER.cases([kind], name):
        if case.tier in tiers:
            problem = unexpected_outcome(case.id, failure_of_any(case, form, cut), KNOWN)
            problems += [] if problem is None else [f"{case.id}: {problem}"]
    assert not problems, "\n".join(problems)


@pytest.mark.long
@pytest.mark.parametrize("file", files())
def test_results_are_those_of_ksqldb(file: str) -> None:
    check(file, {1, 2, 3})


@pytest.mark.long
@pytest.mark.parametrize("file", [file for file in files() if not file.startswith("sql/")])
def test_results_in_columns_are_those_of_ksqldb(file: str) -> None:
    """Consecutive inputs of a topic are one epoch."""
    check(file, {1, 2, 3}, "columns", "runs")


@pytest.mark.slow
@pytest.mark.parametrize("file", [file for file in files() if not file.startswith("sql/")])
def test_results_in_columns_do_not_depend_on_how_inputs_are_cut_into_epochs(file: str) -> None:
    check(file, {1, 2, 3}, "columns", "random")


@pytest.mark.slow
@pytest.mark.parametrize("file", files())
def test_errors_and_inferred_schemas_are_those_of_ksqldb(file: str) -> None:
    check(file, {4})
