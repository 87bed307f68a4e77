"""Joins of streams, tables and global tables by key."""
