"""The rules that a statement has to keep, and the logical plan of a query that keeps them. One file a rule family."""
