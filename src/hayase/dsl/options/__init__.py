"""Options of the DSL's methods."""
