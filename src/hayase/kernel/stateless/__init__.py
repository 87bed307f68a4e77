"""Operators of streams that keep nothing."""
