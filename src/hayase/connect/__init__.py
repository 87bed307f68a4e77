"""Kafka Connect in Python: connectors that move data between topics and other systems, exactly once."""
