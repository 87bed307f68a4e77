"""Joins of the DSL."""
