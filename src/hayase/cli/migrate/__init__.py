"""`hayase sql migrate`: projects of ksql-migrations."""
