"""Side-by-side benchmark of Hayase and Kafka Streams. See README.md in this folder."""
