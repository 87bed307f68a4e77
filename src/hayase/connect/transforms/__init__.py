"""Single message transforms, one a module, under the names of Kafka's and Debezium's classes."""
