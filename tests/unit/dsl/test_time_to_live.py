"""Where a store can have a time to live, and where not."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from hayase import (
    Consumed,
    Materialized,
    Processor,
    Serdes,
    SessionWindows,
    Stores,
    StreamsBuilder,
    TimeWindows,
)
from hayase.core.errors import TopologyError

TEXT = Serdes.string()
READ = Consumed.with_(TEXT, TEXT)
HOUR = timedelta(hours=1)
KEPT: Materialized[Any, Any] = Materialized.as_("kept").with_ttl(HOUR)


def test_a_table_with_a_time_to_live_has_no_cache() -> None:
    builder = StreamsBuilder()
    builder.table("t", READ, KEPT)
    spec = builder.build().stores["kept"]
    assert (spec.ttl_ms, spec.caching) == (3_600_000, False)


@pytest.mark.parametrize("ttl", [timedelta(0), timedelta(seconds=-1)])
def test_a_time_to_live_is_positive(ttl: timedelta) -> None:
    for call in (
        Materialized.as_("a").with_ttl,
        lambda each: Stores.timestamped_key_value_store("a", TEXT, TEXT, ttl=each),
    ):
        with pytest.raises(TopologyError) as raised:
            call(ttl)
        assert raised.value.condition == "INVALID_DURATION"


REFUSED: dict[str, tuple[str, Callable[[StreamsBuilder], Any]]] = {
    "windows": (
        "with_retention",
        lambda b: b.stream("t", READ).group_by_key().windowed_by(TimeWindows.of_size_with_no_grace(HOUR)).count(KEPT),
    ),
    "sessions": (
        "with_retention",
        lambda b: (
            b.stream("t", READ)
            .group_by_key()
            .windowed_by(SessionWindows.of_inactivity_gap_with_no_grace(HOUR))
            .count(KEPT)
        ),
    ),
    "versions": (
        "history_retention",
        lambda b: b.table(
            "t", READ, Materialized.as_(Stores.persistent_versioned_key_value_store("kept", HOUR)).with_ttl(HOUR)
        ),
    ),
    "a global table": ("stream times differ", lambda b: b.global_table("t", READ, KEPT)),
    "a global store": (
        "stream times differ",
        lambda b: b.add_global_store(
            Stores.timestamped_key_value_store("kept", TEXT, TEXT, ttl=HOUR), "t", READ, Processor
        ),
    ),
    "a table without a store": ("named", lambda b: b.table("t", READ).map_values(str, Materialized().with_ttl(HOUR))),
    "a join without a store": (
        "named",
        lambda b: b.table("t", READ).join(b.table("u", READ), lambda one, _: one, Materialized().with_ttl(HOUR)),
    ),
    "no changelog": ("with_logging_enabled", lambda b: b.table("t", READ, KEPT.with_logging_disabled())),
    "no changelog of a store": (
        "logging=True",
        lambda b: b.add_state_store(Stores.timestamped_key_value_store("kept", TEXT, TEXT, ttl=HOUR, logging=False)),
    ),
    "groups of a table": (
        "taken out",
        lambda b: b.table("t", READ).group_by(lambda key, value: (value, key)).count(KEPT),
    ),
    "a table that is grouped": (
        "never leave its group",
        lambda b: (
            b.table("t", READ, KEPT).filter(lambda _, value: bool(value)).group_by(lambda key, value: (value, key))
        ),
    ),
    "a join that is grouped": (
        "never leave its group",
        lambda b: (
            b.table("t", READ, KEPT)
            .join(b.table("u", READ), lambda one, _: one)
            .group_by(lambda key, value: (value, key))
        ),
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_where_it_cannot_be_it_is_refused_with_the_reason(what: str) -> None:
    reason, build = REFUSED[what]
    with pytest.raises(TopologyError, match=reason) as raised:
        build(StreamsBuilder())
    assert raised.value.condition == "TTL_NOT_POSSIBLE"


def test_the_table_of_a_stream_of_such_a_table_may_be_grouped() -> None:
    builder = StreamsBuilder()
    table = builder.table("t", READ, KEPT).to_stream().to_table(Materialized.as_("again"))
    table.group_by(lambda key, value: (value, key)).count()
    assert builder.build().stores["again"].ttl_ms is None
