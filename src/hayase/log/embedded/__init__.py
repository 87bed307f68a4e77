"""The log as a folder on the local disk: LMDB, transactions over topics, several writer and reader processes."""
