"""Syntax trees of statements, queries and expressions, as the parser makes them: frozen data without behaviour."""
