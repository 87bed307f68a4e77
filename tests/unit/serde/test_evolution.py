"""Which values of an older schema a newer one reads: what is said to be readable is read, what is not is refused."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import msgspec
import polars as pl
import pytest

from hayase import JsonSerde, Serde, Serdes
from hayase.core.errors import SerializationError
from hayase.serde.evolution import described, shown, unreadable


@dataclass
class Old:
    item: str
    cents: int


@dataclass
class WithDefault:
    item: str
    cents: int
    coupon: str | None = None
    tags: list[str] = field(default_factory=list)


@dataclass
class Required:
    item: str
    cents: int
    coupon: str


@dataclass
class Fewer:
    cents: int


@dataclass
class Fraction:
    item: str
    cents: float


@dataclass
class Text:
    item: str
    cents: str


@dataclass
class Wide:
    item: str | None
    cents: int | str


@dataclass
class Inner:
    old: Old
    several: list[Old]


@dataclass
class InnerRequired:
    old: Required
    several: list[Old]


@dataclass
class InnerDefault:
    old: WithDefault
    several: list[Fewer]


class Closed(msgspec.Struct, forbid_unknown_fields=True):
    cents: int


class Dated(msgspec.Struct):
    item: str
    cents: datetime


OLD = Old("tea", 5)
NESTED = Inner(OLD, [OLD])


@pytest.mark.parametrize(
    ("written", "old", "new", "reason"),
    [
        (OLD, Old, Old, None),
        (OLD, Old, WithDefault, None),
        (OLD, Old, Fewer, None),
        (OLD, Old, Fraction, None),
        (OLD, Old, Wide, None),
        (OLD, Old, Required, "field 'coupon' is new and has no default"),
        (OLD, Old, Text, "field 'cents' was integer, is to be string"),
        (OLD, Old, Closed, "field 'item' is gone"),
        (OLD, Old, Dated, "field 'cents' was integer, is to be string"),
        (Wide(None, "5"), Wide, Old, "field 'item' was null, is to be string"),
        (Fraction("tea", 0.5), Fraction, Old, "field 'cents' was number, is to be integer"),
        (NESTED, Inner, InnerDefault, None),
        (NESTED, Inner, InnerRequired, "field 'old.coupon' is new and has no default"),
        ([OLD], list[Old], list[Fewer], None),
        ([OLD], list[Old], list[Required], "field '[].coupon' is new and has no default"),
    ],
)
def test_json_of_types(written: Any, old: type[Any], new: type[Any], reason: str | None) -> None:
    check(JsonSerde(old), JsonSerde(new), written, reason)


@pytest.mark.parametrize(
    ("written", "old", "new", "reason"),
    [
        ({"a": 1}, {"a": pl.Int32}, {"a": pl.Int64, "b": pl.String}, None),
        ({"a": 1}, {"a": pl.Int64}, {"a": pl.Float64}, None),
        (
            {"a": 2**40},
            {"a": pl.Int64},
            {"a": pl.Int32},
            "field 'a' was integer, is to be integer -2147483648…2147483647",
        ),
        ({"a": "x"}, {"a": pl.String}, {"a": pl.Boolean}, "field 'a' was string, is to be boolean"),
        ({"a": {"b": 1}}, {"a": pl.Struct({"b": pl.Int64})}, {"a": pl.Struct({"b": pl.Int64, "c": pl.Int64})}, None),
        (
            {"a": {"b": 1}},
            {"a": pl.Struct({"b": pl.Int64})},
            {"a": pl.Struct({"b": pl.String})},
            "field 'a.b' was integer",
        ),
        (
            {"a": ["x"]},
            {"a": pl.List(pl.String)},
            {"a": pl.List(pl.Int64)},
            r"field 'a\[\]' was string, is to be integer",
        ),
    ],
)
def test_json_of_schemas(written: Any, old: Any, new: Any, reason: str | None) -> None:
    check(JsonSerde(schema=old), JsonSerde(schema=new), written, reason and reason.replace("\\", ""))


@pytest.mark.parametrize(
    ("written", "old", "new", "reason"),
    [
        (5, Serdes.long(), Serdes.long(), None),
        (5, Serdes.long(), Serdes.bytes(), None),
        (5, Serdes.long(), Serdes.integer(), "written by LongSerde and are to be read by IntegerSerde"),
        ("x", Serdes.string(), Serdes.long(), "written by StringSerde and are to be read by LongSerde"),
        ("x", Serdes.string(), JsonSerde(Old), "written by StringSerde and are to be read by JsonSerde"),
        (5, Serdes.long(), Serdes.json(), "written by LongSerde and are to be read by JsonSerde"),
        ("x", Serdes.string(), Serdes.json(), "written by StringSerde and are to be read by JsonSerde"),
        ({"a": 1}, Serdes.json(), Serdes.json(), None),
    ],
)
def test_plain_serdes(written: Any, old: Serde[Any], new: Serde[Any], reason: str | None) -> None:
    check(old, new, written, reason)


def test_what_says_nothing_about_its_values_is_not_compared() -> None:
    assert described(Serdes.list(Serdes.long())) is None
    assert unreadable({"serde": "JsonSerde"}, {"serde": "JsonSerde", "schema": {"type": "integer"}}) is None


def check(old: Serde[Any], new: Serde[Any], written: Any, reason: str | None) -> None:
    before, after = (json.loads(json.dumps(described(serde))) for serde in (old, new))
    found, data = unreadable(before, after), old.serialize(written)
    if reason is None:
        assert found is None
        assert new.deserialize(data) is not None
    else:
        assert found is not None and reason in found
        with pytest.raises(SerializationError):
            new.deserialize(data)


def test_a_schema_is_shown_in_few_words() -> None:
    description = described(JsonSerde(WithDefault))
    assert description is not None
    assert shown(description) == "{item: string, cents: integer, coupon?: string | null, tags?: [string]}"
