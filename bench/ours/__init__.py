"""Hayase's side of the benchmark: one module a scenario, started as a process of its own."""
