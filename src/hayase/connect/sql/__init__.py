"""Databases as sinks, through their SQL."""
