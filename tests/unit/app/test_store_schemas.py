"""A program is refused that can not read what earlier ones left in its stores."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from hayase import Consumed, JsonSerde, Materialized, Serdes, StreamsBuilder, StreamsConfig, Topology
from hayase.app.store_schemas import check_store_schemas
from hayase.core.errors import CheckpointError
from hayase.planner.options import configured
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
