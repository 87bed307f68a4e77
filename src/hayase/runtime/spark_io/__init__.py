"""Streaming DataFrames as sources, writers of Spark as sinks."""
