"""Connectors, as statements see them: of a Connect worker, or of this process."""
