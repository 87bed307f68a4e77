"""A program is refused that cannot read what earlier ones left in its stores."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.unit.query.local_app import LocalApp

from hayase import (
    Consumed,
    JsonSerde,
    KeyQuery,
    Materialized,
    Serdes,
    StateQueryRequest,
    StreamsApp,
    StreamsBuilder,
    StreamsConfig,
    Topology,
    avg,
    collect_list,
    count,
    max_,
    min_,
    sum_,
)
from hayase.app.store_schemas import check_store_schemas
from hayase.compiler.options import configured
from hayase.core.errors import CheckpointError
from hayase.kernel.aggregate.built_in_serde import AggregateSerde
from hayase.serde.evolution import described
from hayase.storage.blobs import BlobStore
from hayase.storage.open import open_blobs


@dataclass
class First:
    item: str
    cents: int


@dataclass
class Second:
    item: str
    coupon: str | None = None


@dataclass
class Third:
    item: str
    coupon: str


@dataclass
class Fourth:
    item: str
    cents: str = ""


@pytest.fixture
def blobs(tmp_path: Path) -> BlobStore:
    return open_blobs(str(tmp_path / "checkpoint"), fsync=False)


def program(kind: Any, *, logged: bool = True) -> Topology:
    kept = Materialized.as_("orders") if logged else Materialized.as_("orders").with_logging_disabled()
    builder = StreamsBuilder()
    builder.table("in", Consumed.with_(Serdes.string(), JsonSerde(kind)), kept)
    return configured(builder.build(), StreamsConfig({"application.id": "app"}))


def test_damaged_schemas_are_named(blobs: BlobStore, tmp_path: Path) -> None:
    check_store_schemas(blobs, program(First))
    (name,) = blobs.list("schemas/")
    path = tmp_path / "checkpoint" / name
    for data in (b"", b"{", b"[1]", b'{"orders": 1}', b"\xff"):
        path.unlink()
        path.write_bytes(data)
        with pytest.raises(CheckpointError, match=name) as raised:
            check_store_schemas(blobs, program(First))
        assert raised.value.condition == "STORE_SCHEMAS_CORRUPT"


def test_fields_may_be_added_with_a_default_and_taken_away_and_the_older_program_may_come_back(
    blobs: BlobStore,
) -> None:
    for kind in (First, Second):
        check_store_schemas(blobs, program(kind))
    assert len(blobs.list("schemas/")) == 2
    check_store_schemas(blobs, program(Second))
    assert len(blobs.list("schemas/")) == 2


def test_a_field_without_default_is_refused_with_the_store_both_schemas_and_what_to_do(blobs: BlobStore) -> None:
    check_store_schemas(blobs, program(First))
    with pytest.raises(CheckpointError) as raised:
        check_store_schemas(blobs, program(Third))
    error = raised.value
    assert (error.condition, error.context["store"]) == ("STORE_SCHEMA_CHANGED", "orders")
    for told in (
        "values of store 'orders'",
        "field 'coupon' is new and has no default",
        "{item: string, cents: integer}",
        "{item: string, coupon: string}",
        "Give new fields a default",
        "hayase app reset",
    ):
        assert told in error.message
    assert len(blobs.list("schemas/")) == 1


def test_a_value_may_be_as_old_as_the_checkpoint_so_every_schema_before_counts(blobs: BlobStore) -> None:
    check_store_schemas(blobs, program(First))
    check_store_schemas(blobs, program(Second))  # has no cents
    with pytest.raises(CheckpointError, match="field 'cents' was integer, is to be string"):
        check_store_schemas(blobs, program(Fourth))


def test_stores_without_changelog_and_stores_that_are_gone_are_not_compared(blobs: BlobStore) -> None:
    check_store_schemas(blobs, program(First, logged=False))
    check_store_schemas(blobs, program(Third, logged=False))
    check_store_schemas(blobs, program(First))
    builder = StreamsBuilder()
    builder.stream("in").to("out")
    check_store_schemas(blobs, builder.build())


def aggregate(**fields: Any) -> Topology:
    builder = StreamsBuilder()
    stream = builder.stream("in", Consumed.with_(Serdes.string(), Serdes.json()))
    stream.group_by_key().agg(materialized=Materialized.as_("totals"), **fields)
    return configured(builder.build(), StreamsConfig({"application.id": "app"}))


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        (
            {"total": sum_("n"), "n": count()},
            "in the order n, total, in which they are stored, and are to be in the order total, n",
        ),
        ({"n": count(), "total": max_("n")}, "field 'total' was sum, is to be max"),
        ({"n": count(), "total": sum_("n"), "low": min_("n")}, "field 'low' is new"),
        ({"n": count()}, "field 'total' is gone"),
    ],
)
def test_an_aggregate_does_not_go_on_with_what_other_fields_have_stored(
    blobs: BlobStore, fields: dict[str, Any], reason: str
) -> None:
    check_store_schemas(blobs, aggregate(n=count(), total=sum_("n")))
    with pytest.raises(CheckpointError) as caught:
        check_store_schemas(blobs, aggregate(**fields))
    assert caught.value.condition == "STORE_SCHEMA_CHANGED"
    assert (
        reason in str(caught.value)
        and "'totals'" in str(caught.value)
        and "agg(n=count, total=sum)" in str(caught.value)
    )
    check_store_schemas(blobs, aggregate(n=count(), total=sum_("n")))


def test_an_aggregate_whose_checkpoint_does_not_say_its_fields_yet_goes_on_and_says_them(blobs: BlobStore) -> None:
    blobs.put_if_absent("schemas/000000", b'{"totals": {"key": {"serde": "StringSerde"}}}')
    for _ in range(2):
        check_store_schemas(blobs, aggregate(a=avg("n"), l=collect_list("n", max_size=3)))
    assert blobs.list("schemas/") == ["schemas/000000", "schemas/000001"]
    with pytest.raises(
        CheckpointError, match=r"field 'l' was collect_list\(3, with nulls\), is to be collect_list\(4, with nulls\)"
    ):
        check_store_schemas(blobs, aggregate(a=avg("n"), l=collect_list("n", max_size=4)))


def test_what_an_aggregate_stored_is_read_by_its_description_so_that_it_can_be_rewritten() -> None:
    old, new = (
        program.stores["totals"].value_serde
        for program in (aggregate(n=count(), total=sum_("n")), aggregate(total=sum_("n"), n=count()))
    )
    description = described(old)
    assert description is not None
    data = old.to_bytes({"n": 2, "total": 70})
    assert AggregateSerde.of(description).from_bytes(data) == {"n": 2, "total": 70}
    assert new.from_bytes(new.to_bytes(AggregateSerde.of(description).from_bytes(data))) == {"total": 70, "n": 2}


def kept(value: Any) -> Topology:
    builder = StreamsBuilder()
    builder.table("orders", Consumed.with_(Serdes.string(), value), Materialized.as_("kept"))
    return builder.build()


def test_readers_with_a_program_of_another_serde_are_refused(tmp_path: Path) -> None:
    with closing(LocalApp(tmp_path, kept(Serdes.long()))) as app:
        check_store_schemas(app.blobs, configured(app.topology, StreamsConfig(app.settings)))
        app.epoch()
        assert app.app.store("kept").get("u") is not None
        other = StreamsApp(kept(Serdes.double()), app.settings)
        request = StateQueryRequest.in_store("kept").with_query(KeyQuery.with_key("u"))
        for read in (lambda: other.store("kept"), lambda: other.query(request), lambda: other.pin("kept")):
            with pytest.raises(CheckpointError, match="written by LongSerde and are to be read by DoubleSerde"):
                read()


def test_values_that_were_of_a_plain_serde_are_not_read_as_json_of_any_form(blobs: BlobStore) -> None:
    check_store_schemas(blobs, kept(Serdes.long()))
    with pytest.raises(CheckpointError, match="written by LongSerde and are to be read by JsonSerde"):
        check_store_schemas(blobs, kept(Serdes.json()))


def test_keys_that_were_text_are_not_read_as_json(blobs: BlobStore) -> None:
    def program_of(key: Any) -> Topology:
        builder = StreamsBuilder()
        builder.table("orders", Consumed.with_(key, Serdes.string()), Materialized.as_("kept"))
        return builder.build()

    check_store_schemas(blobs, program_of(Serdes.string()))
    with pytest.raises(CheckpointError, match="the keys of store 'kept'"):
        check_store_schemas(blobs, program_of(Serdes.json()))


def test_keys_that_were_json_are_not_read_as_text_which_has_other_bytes(blobs: BlobStore) -> None:
    def program_of(key: Any) -> Topology:
        builder = StreamsBuilder()
        builder.table("orders", Consumed.with_(key, Serdes.string()), Materialized.as_("kept"))
        return builder.build()

    check_store_schemas(blobs, program_of(Serdes.json()))
    with pytest.raises(CheckpointError, match="written by JsonSerde and are to be read by StringSerde"):
        check_store_schemas(blobs, program_of(Serdes.string()))
