"""Files under everything: LMDB environments, and blobs that are published once."""
