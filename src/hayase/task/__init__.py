"""The epoch of one bundle: fetch, merge, run, publish. Plain Python; knows nothing of Spark."""
