"""Table functions, one module a family."""
