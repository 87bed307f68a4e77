"""Models of Pydantic as values: what of them the serdes need to know. Pydantic is never imported here."""

from __future__ import annotations

import sys
from typing import Any, NamedTuple, Protocol, Self, TypeGuard

import msgspec

from hayase.core.objects import FieldValues, JsonObject
from hayase.serde.field_types import TypeHint

_HARMLESS = {"title", "frozen", "json_schema_extra", "use_attribute_docstrings"}
"""Settings of a model that change nothing about what is read and written."""
_DECORATORS = (
    *("validators", "field_validators", "root_validators", "model_validators"),
    *("field_serializers", "model_serializers", "computed_fields"),
)


class Model(Protocol):
    """What is used of models and their classes."""

    @classmethod
    def model_json_schema(cls) -> JsonObject:
        """The JSON Schema of instances."""

    @classmethod
    def model_validate_json(cls, data: bytes, *, strict: bool) -> Self:
        """The instance that a text is."""

    def model_dump_json(self, *, by_alias: bool) -> str:
        """The text of an instance."""

    def model_dump(self) -> FieldValues:
        """The fields of an instance."""


class PlainField(NamedTuple):
    """A field of a model; defaults that are not there are msgspec's `NODEFAULT`."""

    name: str
    hint: TypeHint
    default: object
    default_factory: object


def is_model(python_type: object) -> TypeGuard[type[Model]]:
    """Whether it is a class of models."""
    pydantic = sys.modules.get("pydantic")  # a program with such a class has imported it
    return pydantic is not None and isinstance(python_type, type) and issubclass(python_type, pydantic.BaseModel)


def plain_fields(model: Any) -> list[PlainField] | None:
    """The fields of a model that does nothing of its own when it is read or written; `None` of others.

    Own are validators, serializers, computed fields, constraints, aliases, an `__init__` or `model_post_init`, and
    settings such as `extra="forbid"`.
    """
    base: Any = sys.modules["pydantic"].BaseModel
    config = {name for name, value in model.model_config.items() if (name, value) != ("extra", "ignore")}
    own = (
        config - _HARMLESS,
        model.__init__ is not base.__init__,
        model.__get_pydantic_core_schema__.__func__ is not base.__get_pydantic_core_schema__.__func__,
        model.__pydantic_post_init__,
        model.__pydantic_root_model__,
        *(getattr(model.__pydantic_decorators__, name) for name in _DECORATORS),
    )
    if any(own):
        return None
    fields = [_plain(name, field) for name, field in model.model_fields.items()]
    return None if None in fields else [field for field in fields if field is not None]


def _plain(name: str, field: Any) -> PlainField | None:
    aliases = (field.alias, field.validation_alias, field.serialization_alias)
    if field.metadata or field.exclude or any(alias is not None for alias in aliases):
        return None
    if field.default_factory is not None:
        if field.default_factory_takes_validated_data:
            return None
        return PlainField(name, field.annotation, msgspec.NODEFAULT, field.default_factory)
    missing = field.is_required()
    return PlainField(name, field.annotation, msgspec.NODEFAULT if missing else field.default, msgspec.NODEFAULT)
