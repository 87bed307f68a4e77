"""Sagas: steps with undo, retries, timeouts and a pivot."""
