"""Scalar functions, one module a family."""
