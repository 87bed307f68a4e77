"""Other stream processors for Python, each a process of its own: as their users would write the first scenarios."""
