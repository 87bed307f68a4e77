"""Converters: bytes of topics and headers from and to values with schemas, under the names of Kafka's classes."""
