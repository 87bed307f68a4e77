"""The one schema of everything that crosses a shuffle, in Spark's words. Imports nothing: see `source`."""

SPARK_SCHEMA = "slot int, kind string, task string, edge string, origin string, seq bigint, payload binary"
