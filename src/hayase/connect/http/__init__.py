"""HTTP as source and sink."""
