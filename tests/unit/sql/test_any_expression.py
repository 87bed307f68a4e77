"""Trees that make no sense are refused with an error of the statement."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tests.unit.sql.expression_functions import registry
from tests.unit.sql.test_row_expressions import COLUMNS, ROW

from hayase.sql.ast.expressions import (
    Arithmetic,
    ArithmeticOperator,
    ArrayConstructor,
    Between,
    BigintLiteral,
    BooleanLiteral,
    Cast,
    ColumnRef,
    Comparison,
    ComparisonOperator,
    DecimalLiteral,
    DoubleLiteral,
    Expression,
    FieldRef,
    FunctionCall,
    InList,
    IntegerLiteral,
    IsNull,
    Lambda,
    LambdaVariable,
    Like,
    Logical,
    LogicalOperator,
    MapConstructor,
    Negative,
    Not,
    NullLiteral,
    SearchedCase,
    SimpleCase,
    StringLiteral,
    StructConstructor,
    Subscript,
    TimeUnit,
    When,
)
from hayase.sql.errors import StatementError
from hayase.sql.expressions.columns import compile_columns
from hayase.sql.expressions.rows import compile_row
from hayase.sql.types.sql_types import (
    BIGINT,
    BOOLEAN,
    BYTES,
    DATE,
    DOUBLE,
    INTEGER,
    STRING,
    TIME,
    TIMESTAMP,
    ArrayType,
    DecimalType,
    MapType,
    SqlType,
    StructType,
)

TYPES: st.SearchStrategy[SqlType] = st.sampled_from(
    [
        BOOLEAN,
        INTEGER,
        BIGINT,
        DOUBLE,
        STRING,
        BYTES,
        DATE,
        TIME,
        TIMESTAMP,
        DecimalType(3, 1),
        ArrayType(INTEGER),
        MapType(STRING, DOUBLE),
        StructType((("P", STRING),)),
    ]
)
NAMES = st.sampled_from(["I", "x", "y", "P"])
LEAVES: st.SearchStrategy[Expression] = st.one_of(
    st.sampled_from([*COLUMNS, "UNKNOWN"]).map(ColumnRef),
    NAMES.map(LambdaVariable),
    st.just(NullLiteral()),
    st.booleans().map(BooleanLiteral),
    st.integers(-5, 5).map(IntegerLiteral),
    st.just(BigintLiteral(2**40)),
    st.sampled_from(["0", "1.50", "-0.001"]).map(lambda text: DecimalLiteral(Decimal(text))),
    st.sampled_from([0.0, 1e300]).map(DoubleLiteral),
    st.sampled_from(["", "1", "2e1", "true", "1970-01-04", "a%"]).map(StringLiteral),
    st.just(TimeUnit("DAYS")),
)


def trees(inner: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
    """Expressions over other ones, whatever these are."""
    lists = st.lists(inner, max_size=3).map(tuple)
    whens = st.lists(st.builds(When, inner, inner), min_size=1, max_size=2).map(tuple)
    return st.one_of(
        st.builds(Arithmetic, st.sampled_from(ArithmeticOperator), inner, inner),
        st.builds(ArrayConstructor, lists),
        st.builds(Between, inner, inner, inner),
        st.builds(Cast, inner, TYPES),
        st.builds(Comparison, st.sampled_from(ComparisonOperator), inner, inner),
        st.builds(FieldRef, inner, NAMES),
        st.builds(FunctionCall, st.sampled_from(registry().names()), lists),
        st.builds(InList, inner, lists.filter(bool)),
        st.builds(IsNull, inner, st.booleans()),
        st.builds(Lambda, st.lists(NAMES, min_size=1, max_size=2).map(tuple), inner),
        st.builds(Like, inner, inner, st.sampled_from([None, "!"])),
        st.builds(Logical, st.sampled_from(LogicalOperator), inner, inner),
        st.builds(MapConstructor, st.lists(st.tuples(inner, inner), max_size=2).map(tuple)),
        st.builds(Negative, inner),
        st.builds(Not, inner),
        st.builds(SearchedCase, whens, st.none() | inner),
        st.builds(SimpleCase, inner, whens, st.none() | inner),
        st.builds(StructConstructor, st.lists(st.tuples(NAMES, inner), max_size=2).map(tuple)),
        st.builds(Subscript, inner, inner),
    )


@pytest.mark.long
@settings(deadline=None, max_examples=300, suppress_health_check=list(HealthCheck))
@given(st.recursive(LEAVES, trees, max_leaves=8))
@example(InList(StructConstructor(()), (StructConstructor((("I", ColumnRef("I")),)),)))  # a field that only one has
def test_any_tree_compiles_or_is_refused(expression: Expression) -> None:
    try:
        compiled = compile_row(expression, COLUMNS, registry(), {"prefix": ""})
    except StatementError:
        return
    compile_columns(expression, COLUMNS, registry())
    try:
        compiled(ROW)
    except (ArithmeticError, ValueError):
        return
