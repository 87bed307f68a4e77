"""ksqlDB's cases on Spark, with topics on a real broker and schemas in a real registry."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.behaviour.registry.apicurio import apicurio, has_maven
from tests.ksqldb.cases import VARIABLE, CaseFolder
from tests.ksqldb.run import main
from tests.ksqldb.spark_cases import RemoteRegistry, run_together, selected, settings_of

from hayase.log.open import open_log
from hayase.log.protocol import LogConfig
from hayase.sql.registry.embedded import EmbeddedSchemaRegistry
from hayase.testing.kafka_broker import KafkaBroker

FOLDER = CaseFolder.found()
TOGETHER = 20

pytestmark = [pytest.mark.slow, pytest.mark.kafka, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def apicurio_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Apicurio Registry, started once."""
    if not has_maven():
        pytest.skip("Apicurio Registry is fetched by Maven, and mvn is not on PATH")
    with apicurio(tmp_path_factory.mktemp("apicurio")) as url:
        yield url


def problems(
    first: int, count: int, broker: KafkaBroker, folder: Path, registry_url: str | None = None
) -> Mapping[str, str]:
    """What fails of some of the selected cases."""
    if FOLDER is None:
        pytest.skip(f"ksqlDB's cases are not here: put them beside the repository, or name their folder in {VARIABLE}")
    cases = selected(FOLDER, first + count, with_registry=registry_url is not None)[first:]
    assert len(cases) == count
    log = open_log(LogConfig("kafka", broker.bootstrap_servers))
    try:
        kind = "cases" if registry_url is None else "schemas"
        registry = (
            EmbeddedSchemaRegistry.in_folder(folder / "schemas")
            if registry_url is None
            else RemoteRegistry(registry_url)
        )
        settings = settings_of(f"{kind}{first}", folder, broker.bootstrap_servers)
        return run_together(cases, settings, log, registry).problems
    finally:
        log.close()


@pytest.mark.parametrize("first", range(0, 100, TOGETHER))
def test_cases_of_all_kinds_have_ksqldbs_results(spark: None, broker: KafkaBroker, tmp_path: Path, first: int) -> None:
    assert problems(first, TOGETHER, broker, tmp_path) == {}


@pytest.mark.parametrize("first", range(0, 30, 15))
def test_cases_with_schemas_have_them_with_a_real_registry(
    spark: None, broker: KafkaBroker, apicurio_url: str, tmp_path: Path, first: int
) -> None:
    assert problems(first, 15, broker, tmp_path, apicurio_url) == {}


def crates_case(name: str, query: str, result: Mapping[str, object]) -> dict[str, Any]:
    source = "CREATE STREAM crates (id INT KEY, kilos DOUBLE) WITH (kafka_topic='crates', value_format='JSON');"
    return {
        "id": f"crates.json::{name}",
        "file": "crates.json",
        "name": name,
        "statements": [source, query],
        "inputs": [{"topic": "crates", "key": 1, "value": {"kilos": 1.5}, "timestamp": 7}],
        "outputs": [result],
        "expected_exception": None,
    }


def test_the_runner_says_what_passes_on_spark_what_fails_and_what_it_leaves_out(
    spark: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    doubled = "CREATE STREAM heavy AS SELECT id, kilos * 2 AS twice FROM crates WHERE kilos > 1;"
    result = {"topic": "HEAVY", "key": 1, "value": {"TWICE": 3.0}, "timestamp": 7}
    cases = [
        crates_case("right", doubled, result),
        crates_case("wrong", doubled, {**result, "key": 2}),
        crates_case("refused", "CREATE STREAM heavy AS SELECT z FROM crates;", result),
        {**crates_case("error", doubled, result), "expected_exception": {"type": None, "message": "nonsense"}},
    ]
    (tmp_path / "query").mkdir()
    (tmp_path / "query" / "crates.json").write_text(json.dumps(cases), "utf-8")
    (tmp_path / "tiers.json").write_text(json.dumps({"query": {each["id"]: 1 for each in cases}}), "utf-8")
    assert main([str(tmp_path), "--engine", "spark"]) == 1
    shown = capsys.readouterr().out
    assert "1 cases left out" in shown and "1 passed, 2 failed" in shown
    assert "FAILED crates.json::wrong" in shown and "key 1, expected 2" in shown
    assert "FAILED crates.json::refused" in shown
