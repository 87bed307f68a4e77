"""An embedded schema registry: schemas, ids, versions and compatibility without a server."""

from hayase.sql.registry.embedded import EmbeddedSchemaRegistry

__all__ = ["EmbeddedSchemaRegistry"]
