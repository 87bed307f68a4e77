"""Operators of tables, and `suppress`."""
