"""Functions of SQL: a registry with signatures and overloads, and the scalar, aggregate and table functions by family."""
