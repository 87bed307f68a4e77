"""Which epochs of a sub-topology in columns run in rows."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from hayase import Consumed, Grouped, Produced, Serdes, StreamsBuilder, StreamsConfig, Topology, count, sum_
from hayase.compiler.compile import compile_subtopologies
from hayase.compiler.options import compile_options, configured
from hayase.task.compiled_subtopology import CompiledSubtopology

TEXT = Serdes.string()
READ = Consumed.with_(TEXT, Serdes.json(schema={"n": pl.Int64, "s": pl.String}))
WRITE = Produced.with_(TEXT, Serdes.json())


def counted() -> Topology:
    builder = StreamsBuilder()
    builder.stream("in", READ).group_by_key().agg(n=count(), total=sum_("n")).to_stream().to("out", WRITE)
    return builder.build()


def filtered() -> Topology:
    builder = StreamsBuilder()
    builder.stream("in", READ).filter(pl.col("n") > 2).map_values({"m": pl.col("n") * 2}).to("out", WRITE)
    return builder.build()


def regrouped() -> Topology:
    builder = StreamsBuilder()
    by_text = builder.stream("in", READ).filter(pl.col("s").is_not_null()).group_by(pl.col("s"), Grouped.with_(TEXT))
    by_text.agg(n=count()).to_stream().to("out", WRITE)
    return builder.build()


def compiled(topology: Topology, **settings: Any) -> list[CompiledSubtopology]:
    config = StreamsConfig({"application.id": "app", **{k.replace("_", "."): v for k, v in settings.items()}})
    return list(compile_subtopologies(configured(topology, config), compile_options(config)).values())


def limit(subtopology: CompiledSubtopology) -> int:
    """The largest number of records that runs in rows."""
    return max((n for n in range(1, 10_000) if subtopology.for_records(n).form == "rows"), default=0)


def test_few_records_run_in_rows_and_many_in_columns() -> None:
    (subtopology,) = compiled(counted())
    assert subtopology.form == "columns"
    assert subtopology.for_records(10).form == "rows"
    assert subtopology.for_records(100_000).form == "columns"


def test_where_expressions_are_evaluated_record_by_record_fewer_records_run_in_rows() -> None:
    (plain,), (expressions,) = compiled(counted()), compiled(filtered())
    assert 1 <= limit(expressions) < limit(plain)


@pytest.mark.parametrize("form", ["rows", "columns"])
def test_a_form_that_is_asked_for_is_that_of_all_epochs(form: str) -> None:
    (subtopology,) = compiled(counted(), processing_form=form)
    assert {subtopology.for_records(n).form for n in (0, 10, 100_000)} == {form}


def test_both_ends_of_a_shuffle_of_typed_columns_stay_in_columns() -> None:
    subtopologies = compiled(regrouped())
    assert len(subtopologies) == 2
    assert {each.for_records(1).form for each in subtopologies} == {"columns"}
