"""Values of Debezium's types as PostgreSQL's driver writes them."""

from __future__ import annotations

import datetime as dt

import pytest

from hayase.connect.schema import INT32_SCHEMA, INT64_SCHEMA, STRING_SCHEMA, ConnectSchema, array_schema
from hayase.connect.sql.postgres_types import storable

DAYS = INT32_SCHEMA.named("io.debezium.time.Date")
TIMESTAMP = INT64_SCHEMA.named("io.debezium.time.MicroTimestamp")
DURATION = INT64_SCHEMA.named("io.debezium.time.MicroDuration")
ZONED = STRING_SCHEMA.named("io.debezium.time.ZonedTimestamp")


@pytest.mark.parametrize(
    ("schema", "value", "stored"),
    [
        (DAYS, 0, dt.date(1970, 1, 1)),
        (DAYS, -735_160, "0044-03-15 BC"),
        (DAYS, 2_932_897, "10000-01-01"),
        (DAYS, (1 << 31) - 1, "infinity"),
        (TIMESTAMP, 500_000, dt.datetime(1970, 1, 1, 0, 0, 0, 500_000)),  # noqa: DTZ001 - without a zone
        (TIMESTAMP, -735_160 * 86_400_000_000 + 500_000, "0044-03-15 00:00:00.500000 BC"),
        (TIMESTAMP, 2_932_897 * 86_400_000_000, "10000-01-01 00:00:00"),
        (TIMESTAMP, 9_223_371_331_200_000_000, "294247-01-02 00:00:00"),
        (TIMESTAMP, 9_223_372_036_825_200_000, "infinity"),
        (TIMESTAMP, -9_223_372_036_832_400_000, "-infinity"),
        (DURATION, 86_400_000_000, dt.timedelta(days=1)),
        (DURATION, (1 << 63) - 1, dt.timedelta(microseconds=(1 << 63) - 1)),
        (ZONED, "-0043-03-15T10:00:00Z", "0044-03-15T10:00:00Z BC"),
        (ZONED, "-infinity", "-infinity"),
        (array_schema(DAYS), [0, None, (1 << 31) - 1], ["1970-01-01", None, "infinity"]),
        (array_schema(DAYS), [0, None], [dt.date(1970, 1, 1), None]),
    ],
)
def test_a_value_of_debezium_is_written_as_postgresql_reads_it(
    schema: ConnectSchema, value: object, stored: object
) -> None:
    assert storable(schema)(value) == stored
