"""Read models: events and tables as rows of a database, each change once."""
