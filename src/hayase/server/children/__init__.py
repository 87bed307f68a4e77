"""Child processes of the server: what may hang or take all memory runs there, and is ended at its limit."""
