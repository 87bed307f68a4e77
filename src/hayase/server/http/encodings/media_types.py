"""The media types of answers."""

from __future__ import annotations

DELIMITED = "application/vnd.ksqlapi.delimited.v1"
JSON = "application/json"
KSQL_JSON = "application/vnd.ksql.v1+json"
KSQL_PROTOBUF = "application/vnd.ksql.v1+protobuf"
TEXT = "text/plain; charset=utf-8"
