"""Hayase."""
