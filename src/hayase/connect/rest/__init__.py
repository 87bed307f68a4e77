"""The REST interface of a worker: paths, bodies and codes of Kafka Connect."""
