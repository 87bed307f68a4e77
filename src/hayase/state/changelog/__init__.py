"""Deltas and snapshots in the checkpoint."""
