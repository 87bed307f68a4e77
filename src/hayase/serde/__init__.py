"""Bytes and values: serdes, the partitioner, windowed keys."""
