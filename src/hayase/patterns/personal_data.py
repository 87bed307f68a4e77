"""Personal fields of commands, events and states: encrypted wherever they are written."""

from __future__ import annotations

import types
import typing
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, is_dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from hayase.core.decoding import decode_json
from hayase.core.errors import SerializationError, TopologyError
from hayase.serde.pydantic_models import is_model

if TYPE_CHECKING:
    from hayase.patterns.subject_keys import SubjectKeys

_UNSET: Any = object()
_TOKEN = {"~key", "data"}
_SAYS_NO_VALUE = ("Expected ", "Object missing required field")
"""How messages of msgspec begin that name types and fields only."""


@dataclass(frozen=True)
class Personal:
    """Marks a field that holds personal data: `email: Annotated[str, Personal(subject="customer")]`.

    It is encrypted with the key of its subject in commands, events, states and dead letters, and reads as `erased`
    once that key is deleted. What is made of it, and kept in other fields, has to be marked as well. A reason of
    `Rejected` is a text of the program: it must not hold any.

    Attributes:
        subject: the field of the same object that holds the id of the subject, a text; default: the aggregate's id.
        erased: what is read in its place after the erasure; default: `None` if the field may be, or "[erased]" for str.
    """

    subject: str | None = None
    erased: Any = _UNSET


class PersonalFields:
    """The personal fields of one type.

    Args:
        value_type: a class.
        keys: of the subjects.

    Raises:
        TopologyError: `INVALID_PERSONAL_FIELD`.
    """

    def __init__(self, value_type: type, keys: SubjectKeys | None) -> None:
        self._keys = keys
        self._fields = personal_fields(value_type)
        self._json_names = _json_names(value_type)
        if self._fields and keys is None:
            raise TopologyError(
                "INVALID_PERSONAL_FIELD",
                f"{value_type.__name__} has personal fields, {', '.join(self._fields)}; give the keys that encrypt "
                'them: keys=SubjectKeys("…-keys")',
            )

    def __bool__(self) -> bool:
        return bool(self._fields)

    def sealed(self, value: object, data: bytes, aggregate_id: str) -> bytes:
        """The JSON of a value with its personal fields encrypted.

        Raises:
            SerializationError: `NO_SUBJECT`.
        """
        keys = self._keys
        assert keys is not None
        row: dict[str, msgspec.Raw] = decode_json(data, as_type=dict[str, msgspec.Raw])
        for name, personal in self._fields.items():
            json_name = self._json_names.get(name, name)
            plain = row.get(json_name)
            if plain is None or bytes(plain) == b"null":
                continue
            subject = aggregate_id if personal.subject is None else getattr(value, personal.subject)
            if not isinstance(subject, str) or not subject:
                raise SerializationError(
                    "NO_SUBJECT",
                    f"{name} of {type(value).__name__} is personal, and its subject, {personal.subject}, is "
                    f"{subject!r:.100}; it is a text that is not empty",
                )
            row[json_name] = msgspec.Raw(msgspec.json.encode(keys.encrypt(subject, bytes(plain))))
        return msgspec.json.encode(row)

    def left_out(self, data: bytes) -> dict[str, msgspec.Raw]:
        """The JSON of a value's other fields."""
        personal = {self._json_names.get(name, name) for name in self._fields}
        row: dict[str, msgspec.Raw] = decode_json(data, as_type=dict[str, msgspec.Raw])
        return {name: value for name, value in row.items() if name not in personal}

    def opened(self, data: bytes) -> bytes:
        """The JSON of a value with its personal fields in the clear, or as they read when they are erased.

        Raises:
            SerializationError: `MALFORMED_VALUE`.
        """
        keys = self._keys
        assert keys is not None
        try:
            row: dict[str, Any] = decode_json(data, as_type=dict[str, msgspec.Raw])  # other fields stay as they are
        except msgspec.ValidationError:  # no object
            return data
        except msgspec.MsgspecError as error:
            raise SerializationError("MALFORMED_VALUE", f"personal fields cannot be read: {error}") from error
        try:
            for name, personal in self._fields.items():
                json_name = self._json_names.get(name, name)
                token = msgspec.json.decode(row[json_name]) if json_name in row else None
                if isinstance(token, dict) and token.keys() == _TOKEN:
                    plain = keys.decrypt(token)
                    row[json_name] = personal.erased if plain is None else msgspec.Raw(plain)
        except (msgspec.MsgspecError, ValueError) as error:
            raise SerializationError("MALFORMED_VALUE", f"personal fields cannot be read: {error}") from error
        return msgspec.json.encode(row)


def personal_fields(value_type: type) -> dict[str, Personal]:
    """The fields of a class that are marked.

    Raises:
        TopologyError: `INVALID_PERSONAL_FIELD`.

    Example:
        >>> from dataclasses import make_dataclass
        >>> from typing import Annotated
        >>> Registered = make_dataclass("Registered", [("email", Annotated[str, Personal()]), ("plan", str)])
        >>> list(personal_fields(Registered))
        ['email']
    """
    hints = _hints(value_type)
    found: dict[str, Personal] = {}
    for name, hint in hints.items():
        mark = _mark_of(hint)
        if mark is None:
            inside = mark_inside(hint)
            if inside is not None:
                raise _invalid(
                    value_type, name, f"its mark is inside of it, at {inside}, and only whole fields are encrypted: "
                    f"mark {name!r} itself, e.g. Annotated[…, Personal(erased=…)]",
                )  # fmt: skip
            continue
        if mark.subject is not None and mark.subject not in hints:
            raise _invalid(value_type, name, f"its subject, {mark.subject!r}, is no field of {value_type.__name__}")
        if issubclass(value_type, msgspec.Struct) and value_type.__struct_config__.array_like:
            raise _invalid(value_type, name, "and a Struct that is written as an array cannot have such fields")
        found[name] = _with_default(value_type, name, hint, mark)
    for name, mark in found.items():
        if mark.subject in found:
            raise _invalid(
                value_type, name, f"its subject, {mark.subject!r}, is personal itself; give an id that is not"
            )
    return found


def _hints(value_type: type) -> dict[str, Any]:
    """The types of fields, also of those that a Pydantic model computes, with their marks.

    Raises:
        TopologyError: `INVALID_PERSONAL_FIELD`.
    """
    try:
        hints = typing.get_type_hints(value_type, include_extras=True)
    except (NameError, TypeError) as error:
        for name, text in getattr(value_type, "__annotations__", {}).items():
            if Personal.__name__ in str(text):  # never kept in clear because its type cannot be found
                raise _invalid(
                    value_type, name, f"its type cannot be found ({error}); define it in a module"
                ) from error
        return {}
    model: Any = value_type
    computed = model.model_computed_fields if is_model(value_type) else {}
    return {**hints, **{name: field.return_type for name, field in computed.items()}}


def _mark_of(hint: object) -> Personal | None:
    """The mark of a field: of its type, or of a member of its union."""
    for mark in getattr(hint, "__metadata__", ()):
        if isinstance(mark, Personal):
            return mark
        if mark is Personal:  # without parentheses
            return Personal()
    if hasattr(hint, "__metadata__"):
        return _mark_of(typing.get_args(hint)[0])
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return next((mark for each in typing.get_args(hint) if (mark := _mark_of(each)) is not None), None)
    return None


def mark_inside(hint: object) -> str | None:
    """Where a type has a mark inside of it, in a list or in a field of another type; `None`: nowhere.

    Raises:
        TopologyError: `INVALID_PERSONAL_FIELD`.

    Example:
        >>> from typing import Annotated
        >>> mark_inside(list[Annotated[str, Personal()]]), mark_inside(list[str])
        ('list', None)
    """
    return next(_marks_inside(hint, set()), None)


def _marks_inside(hint: object, seen: set[object]) -> Iterator[str]:
    root = typing.get_origin(hint) or hint
    for each in typing.get_args(hint):
        if _mark_of(each) is not None:
            yield getattr(root, "__name__", str(root))
        yield from _marks_inside(each, seen)
    if not isinstance(root, type) or root in seen or not (has_fields(root) or _is_record(root)):
        return
    seen.add(root)
    for name, each in _hints(root).items():
        if _mark_of(each) is not None:
            yield f"{root.__name__}.{name}"
        yield from _marks_inside(each, seen)


def has_fields(root: type) -> bool:
    """Whether it is a dataclass, a msgspec Struct or a Pydantic model."""
    return is_dataclass(root) or issubclass(root, msgspec.Struct) or is_model(root)


def _is_record(root: type) -> bool:
    return typing.is_typeddict(root) or (issubclass(root, tuple) and hasattr(root, "_fields"))


def _with_default(value_type: type, name: str, hint: object, mark: Personal) -> Personal:
    if mark.erased is not _UNSET:
        return mark
    while hasattr(hint, "__metadata__"):
        hint = typing.get_args(hint)[0]
    if type(None) in typing.get_args(hint):
        return Personal(mark.subject, None)
    if hint is str:
        return Personal(mark.subject, "[erased]")
    raise _invalid(value_type, name, f"say what is read after an erasure: Personal(erased=…), of type {hint}")


def without_values(what: str, error: SerializationError) -> SerializationError:
    """The error of a value with personal fields: what is wrong and where, and nothing of the value.

    Args:
        what: is not possible.
        error: of the serde; it may show the value.
    """
    cause: Any = error.__cause__
    why = ""
    if isinstance(cause, msgspec.ValidationError):
        said, _, place = str(cause).partition(" - at ")
        why = (f": {said}" if said.startswith(_SAYS_NO_VALUE) else "") + (f" at {place}" if place else "")
    elif hasattr(cause, "errors"):  # of Pydantic
        shown = cause.errors(include_url=False, include_context=False, include_input=False)
        why = ": " + ", ".join(f"{each['type']} at {'.'.join(map(str, each['loc']))}" for each in shown)
    return SerializationError(error.condition, f"{what}{why}; it has personal fields, so it is not shown")


def _invalid(value_type: type, name: str, why: str) -> TopologyError:
    return TopologyError("INVALID_PERSONAL_FIELD", f"the field {name!r} of {value_type.__name__} is personal; {why}")


def _json_names(value_type: Any) -> Mapping[str, str]:
    """Names of fields as JSON has them, where a struct or a model renames them."""
    if is_model(value_type):
        model: Any = value_type
        aliases = {
            **{name: field.serialization_alias or field.alias for name, field in model.model_fields.items()},
            **{name: field.alias for name, field in model.model_computed_fields.items()},
        }
        return {name: alias for name, alias in aliases.items() if alias}
    if not issubclass(value_type, msgspec.Struct):
        return {}
    return dict(zip(value_type.__struct_fields__, value_type.__struct_encode_fields__, strict=True))
