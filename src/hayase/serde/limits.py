"""Limits of columns that a schema may ask for: what is beyond them is read in rows."""

COLUMNS_MAX = 10_000
"""How many types the columns of a schema may have, each mention of a named type counted.

Ten levels of ten mentions are 10^10.
"""
COLUMN_DEPTH_MAX = 50
"""How deep the types of a column may be nested; Arrow's own limit is 64."""
