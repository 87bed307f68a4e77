"""Plans carry only the columns that are needed."""

from __future__ import annotations

from hayase.sql.analysis.pruning import pruned
from hayase.sql.analysis.query import analyze_query
from hayase.sql.analysis.steps import Step
from hayase.sql.ast.statements import SelectQuery
from hayase.sql.engine import SqlEngine
from hayase.sql.grammar.parser import parse_statement

SOURCES = """
    CREATE STREAM l (k INT KEY, a INT, b INT, c INT) WITH (kafka_topic='l', value_format='JSON');
    CREATE STREAM r (k INT KEY, d INT, e INT) WITH (kafka_topic='r', value_format='JSON');
"""


def _columns(query: str) -> list[list[str]]:
    """The columns of each step, the last one first."""
    engine = SqlEngine()
    engine.script(SOURCES)
    statement = parse_statement(query + ";").statement
    assert isinstance(statement, SelectQuery)
    plan = analyze_query(statement.query, engine.catalog, engine.functions, {}, "X", "CREATE STREAM AS SELECT")
    return list(_of(pruned(plan.root)))


def _of(step: Step) -> list[list[str]]:
    return [sorted(step.rows.columns), *(columns for before in step.inputs for columns in _of(before))]


def test_a_filter_needs_columns_that_the_result_does_not() -> None:
    assert _columns("SELECT k, a FROM l WHERE b > 0") == [["A", "K"], ["A", "B", "K"], ["A", "B", "K"]]


def test_pseudo_columns_are_there_where_they_are_selected() -> None:
    assert _columns("SELECT k, ROWTIME AS t FROM l") == [["K", "T"], ["K", "ROWTIME"]]


def test_groups_need_keys_and_arguments() -> None:
    query = "SELECT a, SUM(b) AS s FROM l GROUP BY a"
    assert _columns(query) == [["A", "S"], ["A", "KSQL_AGG_VARIABLE_0"], ["A", "B", "K"]]


def test_sides_of_a_join_need_their_keys() -> None:
    query = "SELECT l.a, r.e FROM l JOIN r WITHIN 1 SECOND ON l.a = r.d"
    assert _columns(query) == [
        ["A", "E"],
        ["L_A", "L_K", "R_D", "R_E", "R_K"],
        ["L_A", "L_K"],
        ["R_D", "R_E", "R_K"],
    ]
