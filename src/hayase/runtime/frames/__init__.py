"""Spark's frames at both ends of a topology: the feeds of `from_spark` and the drains of `to_spark`, beside the query."""
