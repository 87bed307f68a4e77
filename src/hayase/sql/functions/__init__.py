"""Functions of SQL: a registry with signatures and overloads; scalar, aggregate and table functions by family."""
