"""The `hayase` command."""
