"""Runs a planned topology as one Structured Streaming query. The only package that imports PySpark."""
