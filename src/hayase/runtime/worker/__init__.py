"""A worker process: its bundles of one epoch."""
