"""Users and their roles."""
