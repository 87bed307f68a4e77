"""The log on a Kafka cluster, through confluent-kafka (librdkafka)."""
