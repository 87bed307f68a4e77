"""A schema registry in which what a script registers counts for its later statements only, until all of it is right."""

from __future__ import annotations

from typing import Literal

from hayase.core.errors import SchemaRegistryError
from hayase.serde.registry import Held, RegisteredSchema, RegistrySchema, SchemaRegistry

_NO_ID = 0
"""Of a schema that is not registered yet."""


class StagedSchemaRegistry(SchemaRegistry):
    """A registry that is read through, and written by `settle` alone; behind that it is the other registry.

    What of it is pickled is the other registry.

    Args:
        registry: the other one.
    """

    def __init__(self, registry: SchemaRegistry) -> None:
        self._registry = registry
        self._staged: dict[str, list[RegistrySchema]] = {}
        self._settled = False

    def settle(self) -> None:
        """Register what was staged, in order; from now on schemas are registered at once.

        Raises:
            SchemaRegistryError: the registry refuses a schema, or does not answer.
        """
        self._settled = True
        staged, self._staged = self._staged, {}
        for subject, schemas in staged.items():
            for schema in schemas:
                self._registry.register(subject, schema)

    @property
    def url(self) -> str:
        """See SchemaRegistry."""
        return self._registry.url

    @property
    def held(self) -> Held:
        """See SchemaRegistry."""
        return self._registry.held

    def given(self) -> tuple[str, dict[str, object]]:
        """See SchemaRegistry."""
        return self._registry.given()

    def __repr__(self) -> str:
        return repr(self._registry)

    def _key(self) -> tuple[object, ...]:
        return self._registry._key()

    __eq__ = SchemaRegistry.__eq__

    def __hash__(self) -> int:
        return hash(self._registry)

    def __reduce__(self) -> tuple[object, ...]:
        return self._registry.__reduce__()

    def subjects(self) -> list[str]:
        """See SchemaRegistry."""
        return sorted({*self._registry.subjects(), *self._staged})

    def versions(self, subject: str) -> list[int]:
        """See SchemaRegistry; without what is staged."""
        return self._registry.versions(subject)

    def schema(self, schema_id: int) -> RegistrySchema:
        """See SchemaRegistry; what is staged has no id."""
        return self._registry.schema(schema_id)

    def version(self, subject: str, version: int) -> RegisteredSchema:
        """See SchemaRegistry; without what is staged."""
        return self._registry.version(subject, version)

    def latest(self, subject: str) -> RegisteredSchema:
        """See SchemaRegistry."""
        if subject in self._staged:
            return RegisteredSchema(_NO_ID, subject, None, self._staged[subject][-1])
        return self._registry.latest(subject)

    def lookup(self, subject: str, schema: RegistrySchema, *, normalize: bool = False) -> RegisteredSchema:
        """See SchemaRegistry; without what is staged."""
        return self._registry.lookup(subject, schema, normalize=normalize)

    def register(self, subject: str, schema: RegistrySchema, *, normalize: bool = False) -> int:
        """Stage the schema, if the other registry has not got it and would take it; its id, or 0.

        Raises:
            SchemaRegistryError: `SCHEMA_INCOMPATIBLE` with the versions before.
        """
        if self._settled:
            return self._registry.register(subject, schema, normalize=normalize)
        try:
            return self._registry.lookup(subject, schema, normalize=normalize).id
        except SchemaRegistryError as error:
            if error.condition != "SCHEMA_NOT_FOUND":
                raise
        self._registry.check_registrable(subject, schema)
        staged = self._staged.setdefault(subject, [])
        if schema not in staged:
            staged.append(schema)
        return _NO_ID

    def check_registrable(self, subject: str, schema: RegistrySchema) -> None:
        """See SchemaRegistry."""
        self._registry.check_registrable(subject, schema)

    def is_compatible(self, subject: str, schema: RegistrySchema, version: int | Literal["latest"] = "latest") -> bool:
        """See SchemaRegistry."""
        return self._registry.is_compatible(subject, schema, version)

    def compatibility(self, subject: str | None = None) -> str:
        """See SchemaRegistry."""
        return self._registry.compatibility(subject)

    def set_compatibility(self, level: str, subject: str | None = None) -> None:
        """See SchemaRegistry."""
        self._registry.set_compatibility(level, subject)

    def delete(self, subject: str, *, permanent: bool = False) -> None:
        """See SchemaRegistry."""
        self._registry.delete(subject, permanent=permanent)
