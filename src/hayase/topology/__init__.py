"""The logical topology: immutable nodes, validated when made. Knows nothing of Spark, nor of how a node is executed."""
