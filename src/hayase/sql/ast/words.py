"""Keywords of the language: which are reserved, which are names as well, and the units of time."""

from __future__ import annotations

import re


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


RESERVED = _words(
    """
    ADVANCE ALL AND AS AT BEGINNING BETWEEN BY CASE CAST CONNECTOR CONNECTORS CREATE DECIMAL DELETE DESCRIBE DISTINCT
    DROP ELSE END EXISTS EXTENDED FALSE FROM FULL GROUP HAVING HOPPING IN INNER INSERT INTO IS JOIN LEFT LIKE LIMIT LIST
    NOT NULL ON OR OUTER PAUSE PRINT PROPERTIES QUERIES RESUME RETENTION RIGHT RUN SAMPLE SCRIPT SELECT SIZE STREAM
    STREAMS TABLE TERMINATE THEN TOPIC TOPICS TRUE TUMBLING UNSET VALUES WHEN WHERE WINDOW WITH WITHIN
    """
)
"""Words that are names only in quotes."""

UNITS = {
    "MILLISECOND": 1,
    "MILLISECONDS": 1,
    "SECOND": 1_000,
    "SECONDS": 1_000,
    "MINUTE": 60_000,
    "MINUTES": 60_000,
    "HOUR": 3_600_000,
    "HOURS": 3_600_000,
    "DAY": 86_400_000,
    "DAYS": 86_400_000,
}
"""Units of durations, with their milliseconds."""

NON_RESERVED = _words(
    """
    ADD ALTER ARRAY ASSERT CHANGES COLUMN DEFINE EMIT ESCAPE EXPLAIN FINAL FUNCTION FUNCTIONS GRACE HEADER HEADERS
    ID IF INTERVAL KEY LANGUAGE MAP PARTITION PERIOD PLUGINS PRIMARY PYTHON REPLACE RETURNS SCHEMA SESSION SET SHOW
    SINK SOURCE STRING STRUCT SUBJECT SYSTEM TABLES TIME TIMEOUT TYPE TYPES UNDEFINE VARIABLES ZONE
    """
).union(UNITS)
"""Keywords that are names wherever the grammar does not expect the keyword."""

_PLAIN_NAME = re.compile(r"[A-Z_][A-Z0-9_@]*|[0-9]+[A-Z_@][A-Z0-9_@]*")


def name_text(name: str) -> str:
    """A name as SQL: bare where that reads back as the same name, else in back quotes."""
    # A number with an exponent, such as 1E5, is no name.
    plain = _PLAIN_NAME.fullmatch(name) is not None and name not in RESERVED and not re.fullmatch(r"\d+E\d+", name)
    return name if plain else "`" + name.replace("`", "``") + "`"
