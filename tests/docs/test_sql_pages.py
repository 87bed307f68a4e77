"""What docs/sql/README.md and docs/sql/statements.md show works as it stands there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from hayase.app.sql_program import ALLOWED
from hayase.cli.load import load_file
from hayase.cli.main import run_cli
from hayase.sql.analysis.with_properties import CREATE_AS_PROPERTIES, CREATE_PROPERTIES, INSERT_PROPERTIES
from hayase.sql.ast.words import RESERVED
from hayase.sql.engine import SqlEngine
from hayase.sql.functions.registry import FunctionRegistry, default_registry
from hayase.sql.grammar.parser import parse_script
from hayase.testing.sql.script import SqlScript

DOCS = Path(__file__).resolve().parents[2] / "docs" / "sql"
README = (DOCS / "README.md").read_text("utf-8")
STATEMENTS = (DOCS / "statements.md").read_text("utf-8")


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page, re.DOTALL)


@pytest.fixture
def own_functions(tmp_path: Path) -> FunctionRegistry:
    (program,) = blocks(README, "python")
    file = tmp_path / "functions.py"
    file.write_text(program, "utf-8")
    registry = default_registry()
    registry.load_module(load_file(file).__name__)
    return registry


def test_the_reserved_words_of_the_reference_are_all_that_there_are() -> None:
    behind = STATEMENTS.partition("These words are names in quotes only")[2]
    assert set(re.findall(r"`([A-Z]+)`", behind.split("\n\n")[1])) == RESERVED


def test_the_statements_of_the_reference_are_executed_one_after_the_other() -> None:
    results = SqlEngine().script("\n".join(blocks(STATEMENTS, "sql")))
    assert len(results) == 9


def test_the_reference_has_every_property_of_with() -> None:
    named = set(re.findall(r"`([A-Z_]+)`", STATEMENTS.partition("## WITH")[2]))
    assert not (CREATE_PROPERTIES | CREATE_AS_PROPERTIES | INSERT_PROPERTIES) - named


def test_the_script_of_the_page_is_a_program() -> None:
    script = blocks(README, "sql")[0]
    assert all(isinstance(parsed.statement, ALLOWED) for parsed in parse_script(script))
    started = [query.id for result in SqlEngine().script(script) for query in result.started]
    assert started == ["CSAS_ENRICHED_0", "CTAS_REGIONS_1"]


def test_the_test_of_the_page_passes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (text,) = [block for block in blocks(README, "sql") if "--@test" in block]
    (tmp_path / "orders.sql").write_text(text, "utf-8")
    assert run_cli(["sql", "test", str(tmp_path)]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "1 passed, 0 failed"


def test_the_functions_of_the_page_are_used_by_queries(own_functions: FunctionRegistry) -> None:
    with SqlScript({"ksql.persistence.default.format.value": "JSON"}, own_functions) as script:
        script.run("""
            CREATE STREAM s (id INT KEY, n INT, text STRING) WITH (kafka_topic='s');
            CREATE STREAM doubles AS SELECT id, DOUBLED(n) AS n, WORDS(text) AS word FROM s;
            CREATE TABLE spreads AS SELECT id, SPREAD(n) AS spread FROM s GROUP BY id;
            INSERT INTO s VALUES (1, 5, 'a b');
            INSERT INTO s VALUES (1, 2, NULL);
            ASSERT VALUES doubles (id, n, word) VALUES (1, 10, 'a');
            ASSERT VALUES doubles (id, n, word) VALUES (1, 10, 'b');
            ASSERT VALUES spreads (id, spread) VALUES (1, 0);
            ASSERT VALUES spreads (id, spread) VALUES (1, 3);
        """)


def test_functions_of_a_file_are_known_to_tests_in_sql(tmp_path: Path) -> None:
    (program,) = blocks(README, "python")
    (tmp_path / "own_functions.py").write_text(program, "utf-8")
    (tmp_path / "t.sql").write_text(
        "CREATE STREAM s (id INT KEY, n INT) WITH (kafka_topic='s', value_format='JSON');"
        "CREATE STREAM t AS SELECT id, DOUBLED(n) AS n FROM s;"
        "INSERT INTO s VALUES (1, 5); ASSERT VALUES t (n) VALUES (10);",
        "utf-8",
    )
    assert run_cli(["sql", "test", str(tmp_path), "--functions", str(tmp_path / "own_functions.py")]) == 0


def test_the_function_and_the_stream_of_the_page_are_created() -> None:
    (function,) = [block for block in blocks(README, "sql") if "CREATE FUNCTION" in block]
    (failures,) = [block for block in blocks(README, "sql") if "ksql_processing_log" in block]
    settings = {"ksql.udfs.python.enabled": "true", "ksql.logging.processing.stream.auto.create": "true"}
    with SqlScript(settings) as script:
        script.run(function + failures)
        assert script.engine.catalog.find("FAILURES") is not None
        assert script.engine.functions.kind("INITIALS") is not None
