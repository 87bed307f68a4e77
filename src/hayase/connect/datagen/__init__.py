"""Generated records, for trying things out."""
