"""Definitions of configurations: keys, types, defaults, validators, recommenders."""
