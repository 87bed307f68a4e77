"""The herder: configurations, states and tasks of a worker's connectors."""
