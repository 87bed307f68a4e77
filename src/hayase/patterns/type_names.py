"""Names of the types of commands, events and states, and their JSON.

The kit keeps a map of its own: tags that classes carry are lost where a class travels by value.
"""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from hayase.core.errors import SerializationError, TopologyError
from hayase.patterns.personal_data import PersonalFields, has_fields, mark_inside, without_values
from hayase.serde import Serde, Serdes

if TYPE_CHECKING:
    from hayase.patterns.subject_keys import SubjectKeys

Kind = Literal["command", "event", "state"]
_PLAIN = (bool, int, float, str, dict, list)


class TypeNames:
    """The types of one kind that an aggregate has, by name; reads and writes their values.

    Args:
        kind: what they are, for errors.
        hints: the types: classes, `None`, and for states what JSON has.
        renamed: former names → types.
        keys: of the subjects of personal fields.

    Raises:
        TopologyError: `INVALID_PERSONAL_FIELD`.
        TopologyError: `INVALID_TYPES`: two of one name, a type without fields, a former name that is a current one.
    """

    def __init__(
        self, kind: Kind, hints: Iterable[object], renamed: Mapping[str, type], keys: SubjectKeys | None = None
    ) -> None:
        self.kind = kind
        self._keys = keys
        self._personal: dict[str, PersonalFields] = {}
        self._serdes: dict[str, Serde[Any]] = {}
        self._names: dict[type, str] = {}
        self.nullable = False
        for hint in hints:
            if hint is None or hint is type(None):
                self.nullable = True
                continue
            self._add(hint)
        self.types = dict(self._types)
        for former, current in renamed.items():
            if current not in self._names:
                continue
            if former in self.types:
                raise _invalid(f"{former!r} is said to be renamed, and is the name of a {kind} as well")
            self._serdes[former] = self._serdes[self._names[current]]
            if self._names[current] in self._personal:
                self._personal[former] = self._personal[self._names[current]]

    @property
    def _types(self) -> dict[str, type]:
        return {name: each for each, name in self._names.items()}

    def _add(self, hint: object) -> None:
        root = typing.get_origin(hint) or hint
        if not isinstance(root, type) or not (has_fields(root) or (self.kind == "state" and root in _PLAIN)):
            allowed = "dataclasses, msgspec Structs and Pydantic models"
            raise _invalid(
                f"{hint!r} cannot be a {self.kind}; allowed are {allowed}"
                + (", None, bool, int, float, str, list and dict" if self.kind == "state" else "")
            )
        name = root.__name__
        if name in self._serdes:
            raise _invalid(f"two {self.kind}s are called {name!r}; types go by their names: rename one")
        self._names[root] = name
        self._serdes[name] = Serdes.json(hint)
        if not has_fields(root):
            if (inside := mark_inside(hint)) is not None:
                raise TopologyError(
                    "INVALID_PERSONAL_FIELD",
                    f"{hint!r} cannot be a {self.kind}: {inside} in it is personal, and only fields of a {self.kind} "
                    "are encrypted; make it a field of a class",
                )
        elif fields := PersonalFields(root, self._keys):
            self._personal[name] = fields

    def __contains__(self, name: object) -> bool:
        return name in self._serdes

    def name_of(self, value: object) -> str:
        """The name of the type of a value; empty for `None`.

        Raises:
            SerializationError: `UNKNOWN_TYPE`: it is of another type.
        """
        name = self._names.get(type(value))
        if name is not None:
            return name
        if value is None and self.nullable:
            return ""
        given = f"{value!r:.200}" if self._keys is None else f"a {type(value).__name__}"  # it may hold personal data
        raise SerializationError(
            "UNKNOWN_TYPE",
            f"{given} is no {self.kind} of this aggregate; its {self.kind}s are {', '.join(self.types)}",
        )

    def name_of_type(self, value_type: type) -> str | None:
        """The name of a type; `None` if it is not one of these."""
        return self._names.get(value_type)

    def encode(self, name: str, value: object) -> bytes:
        """The JSON of a value of that name, in the clear; raises SerializationError."""
        if not name:
            return b"null"
        try:
            return self._serdes[name].to_bytes(value)
        except SerializationError as error:
            if name not in self._personal:
                raise
            refused = error
        raise without_values(f"a {name} cannot be written", refused)

    def seal(self, name: str, value: object, aggregate_id: str) -> bytes:
        """The JSON of a value as it is written: personal fields are encrypted; raises SerializationError."""
        if name and name not in self._personal:  # the usual case, without a call between
            return self._serdes[name].to_bytes(value)
        data = self.encode(name, value)
        personal = self._personal.get(name)
        return data if personal is None else personal.sealed(value, data, aggregate_id)

    def without_personal(self, value: object) -> object:
        """A value as it is compared where its personal fields do not count; raises SerializationError."""
        name = self.name_of(value)
        personal = self._personal.get(name)
        return value if personal is None else (name, personal.left_out(self.encode(name, value)))

    def decode(self, name: str, data: bytes) -> Any:
        """The value of JSON, personal fields in the clear or erased.

        Raises:
            SerializationError: `UNKNOWN_TYPE` for a name that is not there.
        """
        if not name and self.nullable:
            return None
        serde = self._serdes.get(name)
        if serde is None:
            raise SerializationError(
                "UNKNOWN_TYPE", f"{name!r} is no {self.kind} of this aggregate; known are {', '.join(self.types)}"
            )
        personal = self._personal.get(name)
        if personal is not None:
            data = personal.opened(data)
        try:
            value = serde.from_bytes(data)
        except SerializationError as error:
            if personal is None:
                raise
            refused = error
        else:
            if value is None:
                raise SerializationError("MALFORMED_VALUE", f"null is no {name}")
            return value
        raise without_values(f"it is no {name}", refused)


def hints_of(function: Callable[..., object], position: int, what: str) -> tuple[object, ...]:
    """The types that a parameter of a function is annotated with, unions taken apart.

    Raises:
        TopologyError: `INVALID_TYPES`: it has no annotation.
    """
    try:
        parameters = list(inspect.signature(function).parameters.values())
        hints = typing.get_type_hints(function)
        return union_members(hints[parameters[position].name])
    except (TypeError, ValueError, NameError, KeyError, IndexError, AttributeError) as error:
        raise _invalid(
            f"the types of {what} are not known: parameter {position + 1} of {function!r} has no annotation that can "
            f"be evaluated ({type(error).__name__}: {error}). Annotate it, e.g. `Place | Cancel`, or give EventSourced "
            f"the types: {what}=[Place, Cancel]"
        ) from error


def union_members(hint: object) -> tuple[object, ...]:
    """The members of a union; a type that is none is the only one.

    Example:
        >>> union_members(int | str), union_members(int)
        ((<class 'int'>, <class 'str'>), (<class 'int'>,))
    """
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return tuple(member for each in typing.get_args(hint) for member in union_members(each))
    return (hint,)


def _invalid(message: str) -> TopologyError:
    return TopologyError("INVALID_TYPES", message)


def type_sequence(given: Sequence[object] | None, default: Callable[[], tuple[object, ...]]) -> tuple[object, ...]:
    """The types that were given, else those that are found."""
    return default() if given is None else tuple(given)
