"""Aggregations of streams and tables without windows, and the built-in aggregates."""
