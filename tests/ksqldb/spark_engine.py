"""Cases on Spark for the runner: which ones it takes, a broker and a registry for them, and what fails."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.ksqldb.cases import Case
from tests.ksqldb.known_failures import unexpected_outcome
from tests.ksqldb.spark_cases import run_together, runs_alike, settings_of

from hayase.log.open import open_log
from hayase.log.protocol import Log, LogConfig
from hayase.sql.registry.embedded import EmbeddedSchemaRegistry
from hayase.testing.kafka_broker import KafkaBroker

_TOGETHER = 20


@dataclass(frozen=True)
class SparkOutcome:
    """What became of cases on Spark.

    Attributes:
        ran: the cases that were run.
        problems: what is wrong with those that did not end as expected, by id.
        left_out: how many depend on how records of several topics follow each other, or expect an error.
    """

    ran: Sequence[Case]
    problems: Mapping[str, str]
    left_out: int


def run_on_spark(cases: Sequence[Case], known: Mapping[str, str]) -> SparkOutcome:
    """Run the cases whose results do not depend on where epochs begin, many in one runtime, on a real broker."""
    ran = [case for case in cases if runs_alike(case)]
    found: dict[str, str] = {}
    if ran:
        with tempfile.TemporaryDirectory() as name, KafkaBroker() as broker:
            log = open_log(LogConfig("kafka", broker.bootstrap_servers))
            try:
                for first in range(0, len(ran), _TOGETHER):
                    folder = Path(name) / str(first)
                    found |= _failures(ran[first : first + _TOGETHER], folder, broker.bootstrap_servers, log)
            finally:
                log.close()
    outcomes = {case.id: unexpected_outcome(case.id, found.get(case.id), known) for case in ran}
    problems = {case_id: problem for case_id, problem in outcomes.items() if problem is not None}
    return SparkOutcome(ran, problems, len(cases) - len(ran))


def _failures(cases: Sequence[Case], folder: Path, bootstrap_servers: str, log: Log) -> dict[str, str]:
    """Why cases fail that run together; those beside one that stops its runtime are run again without it."""
    failures: dict[str, str] = {}
    left = list(cases)
    while left:
        attempt = f"cases{folder.name}-{len(left)}"
        registry = EmbeddedSchemaRegistry.in_folder(folder / attempt / "schemas")
        settings = settings_of(attempt, folder / attempt, bootstrap_servers)
        outcome = run_together(left, settings, log, registry)
        failures |= outcome.problems
        if outcome.complete:
            break
        left = [case for case in left if case.id not in outcome.problems]
    return failures
