"""Stores: typed views over bytes."""
