"""An error in a topology names the line of the user's program that is wrong, also where it comes later."""

from __future__ import annotations

import inspect
import pickle
import sysconfig
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from hayase import Consumed, Serdes, StreamsBuilder, Topology
from hayase.core.call_site import is_users_file
from hayase.core.errors import TopologyError
from hayase.processor.api import Processor
from hayase.testing import TopologyTestDriver

SCHEMA = Serdes.json(schema={"city": pl.String})


def here(after: int = 0) -> str:
    """This file and the caller's line, so many lines further."""
    frame = inspect.stack()[1]
    return f"{frame.filename}:{frame.lineno + after}"


def line_of(wrong: Callable[[], object]) -> str:
    with pytest.raises(TopologyError) as raised:
        wrong()
    line = raised.value.line
    assert line is not None
    assert f"line {line}" in str(raised.value)
    return line


def same(line: str, other: str) -> bool:
    """One may be as seen from the working directory."""
    return line.endswith(other) or other.endswith(line)


def test_a_link_to_the_command_is_not_taken_for_the_users_program(tmp_path: Path) -> None:
    (tmp_path / "hayase").symlink_to(Path(sysconfig.get_path("scripts")) / "hayase")
    (tmp_path / "shop.py").write_text("")
    (tmp_path / "link.py").symlink_to(tmp_path / "shop.py")
    assert not is_users_file(str(tmp_path / "hayase"))
    assert is_users_file(str(tmp_path / "link.py"))


def test_a_call_that_is_wrong_is_named() -> None:
    orders = StreamsBuilder().stream("orders", Consumed.with_(Serdes.string(), SCHEMA))
    assert same(line_of(lambda: orders.filter(pl.col("town") == "Oslo")), here())


def test_a_serde_that_is_missing_is_named_by_the_aggregation_that_needs_it() -> None:
    builder = StreamsBuilder()
    orders = builder.stream("orders", Consumed.with_(Serdes.string(), SCHEMA))
    expected = here(after=3)
    (
        orders.group_by(lambda key, value: value["city"])
        .count()
    )  # fmt: skip
    assert same(line_of(lambda: TopologyTestDriver(builder.build())), expected)


def test_a_field_that_a_callables_values_may_not_have_is_named_by_the_expression_that_wants_it() -> None:
    builder = StreamsBuilder()
    names = builder.stream("names")
    bad, expected = names.filter(pl.col("town") == "Oslo"), here()
    bad.to("out")
    line = line_of(lambda: TopologyTestDriver(builder.build(), {"default.value.serde": Serdes.string()}))
    assert same(line, expected)


def test_a_store_that_is_not_there_is_named_by_the_processor_that_wants_it() -> None:
    builder = StreamsBuilder()
    builder.stream("in").process(Silent, "store")
    expected = here(after=-1)
    assert same(line_of(builder.build), expected)


def test_nodes_that_are_added_one_by_one_have_lines_too() -> None:
    topology = Topology().add_source("in", "t")
    assert same(topology.lines["in"], here(after=-1))


def test_the_line_travels_with_the_error_and_is_not_that_of_who_reads_it() -> None:
    with pytest.raises(TopologyError) as raised:
        StreamsBuilder().stream("")
    copy = pickle.loads(pickle.dumps(raised.value))
    assert (copy.line, str(copy)) == (raised.value.line, str(raised.value))
    raised.value.line = None
    assert pickle.loads(pickle.dumps(raised.value)).line is None


class Silent(Processor):
    def process(self, record):
        pass
