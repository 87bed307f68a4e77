"""Aggregate functions, one module a family."""
