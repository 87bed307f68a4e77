"""Where persistent queries run."""
