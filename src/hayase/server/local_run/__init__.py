"""Topologies that run in the server's process: the same tasks as in Spark, with their state in memory."""
