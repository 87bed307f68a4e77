"""Random statements end in an answer or in an error that says what is wrong, and soon."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.fuzz.sql_statements import SOURCES, StatementMaker

from hayase.core.errors import HayaseError
from hayase.sql.ast.statement_text import statement_text
from hayase.sql.engine import SqlEngine
from hayase.sql.grammar.parser import ParsedStatement, parse_script
from hayase.sql.registry.embedded import EmbeddedSchemaRegistry
from hayase.sql.statements.results import StatementResult
from hayase.testing import TopologyTestDriver

BATCH = 100
PORTIONS = 8
"""Which processes share."""
CPU_SECONDS_MAX = 1.0
"""For one statement, of this process: what else the machine does is not in it."""
RECORDS = [
    (b"1", b'{"A": 5, "B": 6, "D": 1.5, "M": 3.25, "T": "x", "F": true, "XS": [1, null], "MP": {"x": 1}}'),
    (b"null", b"{}"),
    (b"2", None),
    (b"junk", b"junk"),
]


def engine() -> SqlEngine:
    made = SqlEngine({"ksql.udfs.python.enabled": "true"}, schema_registry=EmbeddedSchemaRegistry())
    made.script(SOURCES)
    return made


def parsed(text: str) -> list[ParsedStatement]:
    """The statements of a text; none where it is none. What is parsed reads back from its own text."""
    try:
        statements = parse_script(text)
    except HayaseError:
        return []
    for each in statements:
        (again,) = parse_script(f"{statement_text(each.statement)};")
        assert again.statement == each.statement
    return statements


def executed(on: SqlEngine, statement: ParsedStatement) -> StatementResult | None:
    try:
        return on.execute(statement)
    except HayaseError:
        return None


def processed(result: StatementResult) -> None:
    """A few records, good and bad, go through what the statement started."""
    for query in result.started:
        try:
            with TopologyTestDriver(
                query.topology, {"deserialization.exception.handler": "log_and_continue"}
            ) as driver:
                for number, (key, value) in enumerate(RECORDS):
                    for topic in query.source_topics:
                        driver.pipe(topic, key, value, number, ())
        except HayaseError:
            pass


@pytest.fixture
def no_logs() -> Iterator[None]:
    """Nothing is logged: most records and statements are wrong."""
    logging.disable()
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("portion", range(PORTIONS))
@pytest.mark.usefixtures("no_logs")
def test_random_statements(portion: int, inputs: int, tmp_path: Path) -> None:
    succeeded = 0
    batches = range(portion, -(-inputs // 2 // BATCH), PORTIONS)
    if not batches:
        pytest.skip("so few inputs leave this portion none")
    for batch in batches:
        on, maker = engine(), StatementMaker(f"sql {batch}")
        for _ in range(BATCH):
            text = maker.next()
            (tmp_path / "last.sql").write_text(text, "utf-8", "surrogatepass")
            begun = time.process_time()
            try:
                for statement in parsed(text):
                    result = executed(on, statement)
                    if result is not None:
                        succeeded += 1
                        processed(result)
            except Exception as error:  # not one of ours: that is the fault
                pytest.fail(f"{type(error).__name__}: {error}\n{text}")
            assert time.process_time() - begun <= CPU_SECONDS_MAX, text
    assert succeeded > 0
