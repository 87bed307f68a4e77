"""ksqlDB's SQL: statements, their analysis, and the topologies that they become. Knows neither Spark nor HTTP."""
