"""Aggregations over time, sliding and session windows."""
