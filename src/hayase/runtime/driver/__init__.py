"""The driver: the Spark session, the query, the lease."""
