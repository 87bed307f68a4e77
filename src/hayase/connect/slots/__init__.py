"""Slots: processes that run tasks of connectors for a worker in another process."""
