"""Change data capture from PostgreSQL: Debezium's events, configuration and offsets, without Debezium."""
