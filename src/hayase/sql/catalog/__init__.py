"""Streams, tables and custom types that statements have made, and the queries that read and write them."""
