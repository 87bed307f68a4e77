"""The execution of statements, one file a family."""
