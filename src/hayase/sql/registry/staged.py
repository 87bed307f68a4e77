"""A schema registry in which what a script registers counts for its later statements only, until all of it is right."""

from __future__ import annotations

from typing import Literal

from hayase.core.errors import SchemaRegistryError
from hayase.serde.registry import Held, RegisteredSchema, RegistrySchema, SchemaReference, SchemaRegistry
from hayase.sql.registry.compatibility import problems

_NO_ID = 0
"""Of a schema that is not registered yet."""


class StagedSchemaRegistry(SchemaRegistry):
    """A registry that is read through, and gets schemas by `settle` alone; behind that it is the other registry.

    Levels and deletions go through at once. What of it is pickled is the other registry.

    Args:
        registry: the other one.
    """

    def __init__(self, registry: SchemaRegistry) -> None:
        self._registry = registry
        self._staged: list[tuple[str, RegistrySchema]] = []
        self._settled = False

    def settle(self) -> None:
        """Register what was staged, in order; from now on schemas are registered at once.

        Raises:
            SchemaRegistryError: the registry refuses a schema, or does not answer.
        """
        while self._staged:
            self._registry.register(*self._staged[0])
            del self._staged[0]
        self._settled = True

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
        return sorted({*self._registry.subjects(), *(subject for subject, _ in self._staged)})

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
        staged = self._staged_of(subject)
        return RegisteredSchema(_NO_ID, subject, None, staged[-1]) if staged else self._registry.latest(subject)

    def lookup(self, subject: str, schema: RegistrySchema, *, normalize: bool = False) -> RegisteredSchema:
        """See SchemaRegistry; without what is staged."""
        return self._registry.lookup(subject, schema, normalize=normalize)

    def register(self, subject: str, schema: RegistrySchema, *, normalize: bool = False) -> int:
        """Stage the schema, if the other registry has not got it and would take it; its id, or 0.

        Raises:
            SchemaRegistryError: `SCHEMA_INCOMPATIBLE` with the versions before, staged ones too.
        """
        if self._settled:
            return self._registry.register(subject, schema, normalize=normalize)
        try:
            return self._registry.lookup(subject, schema, normalize=normalize).id
        except SchemaRegistryError as error:
            if error.condition != "SCHEMA_NOT_FOUND":
                raise
        self.check_registrable(subject, schema)
        if (subject, schema) not in self._staged:
            self._staged.append((subject, schema))
        return _NO_ID

    def _fetch(self, reference: SchemaReference) -> RegistrySchema:
        return self._registry.version(reference.subject, reference.version).schema

    def _level(self, subject: str) -> str:
        try:
            return self._registry.compatibility(subject)
        except SchemaRegistryError as error:
            if error.condition != "SCHEMA_NOT_FOUND":
                raise
            return self._registry.compatibility()

    def _staged_of(self, subject: str) -> list[RegistrySchema]:
        return [schema for each, schema in self._staged if each == subject]

    def check_registrable(self, subject: str, schema: RegistrySchema) -> None:
        """See SchemaRegistry; also with what is staged."""
        self._registry.check_registrable(subject, schema)
        staged = self._staged_of(subject)
        if not staged:
            return
        level = self._level(subject)
        problem = next(problems(level, staged, schema, self._fetch), None)
        if problem is not None:
            raise SchemaRegistryError(
                "SCHEMA_INCOMPATIBLE",
                f"the schema cannot follow that of an earlier statement for {subject!r} under the compatibility level "
                f"{level}: {problem}",
            )

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
