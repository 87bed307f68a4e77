"""The type of an expression, and what it compiles to: generated Python for rows, Polars for columns."""
