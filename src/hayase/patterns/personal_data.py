"""Personal fields of commands, events and states: encrypted wherever they are written."""

from __future__ import annotations

import typing
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from hayase.core.decoding import decode_json
from hayase.core.errors import SerializationError, TopologyError

if TYPE_CHECKING:
    from hayase.patterns.subject_keys import SubjectKeys

_UNSET: Any = object()
_TOKEN = {"~key", "data"}


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

    def opened(self, data: bytes) -> bytes:
        """The JSON of a value with its personal fields in the clear, or as they read when they are erased.

        Raises:
            SerializationError: `MALFORMED_VALUE`.
        """
        keys = self._keys
        assert keys is not None
        try:
            row: Any = msgspec.json.decode(data)
            if not isinstance(row, dict):
                return data
            for name, personal in self._fields.items():
                json_name = self._json_names.get(name, name)
                token = row.get(json_name)
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
    try:
        hints = typing.get_type_hints(value_type, include_extras=True)
    except (NameError, TypeError) as error:
        for name, text in getattr(value_type, "__annotations__", {}).items():
            if Personal.__name__ in str(text):  # never kept in clear because its type cannot be found
                raise _invalid(
                    value_type, name, f"its type cannot be found ({error}); define it in a module"
                ) from error
        return {}
    found: dict[str, Personal] = {}
    for name, hint in hints.items():
        marks = [each for each in getattr(hint, "__metadata__", ()) if isinstance(each, Personal)]
        if not marks:
            continue
        mark = marks[0]
        if mark.subject is not None and mark.subject not in hints:
            raise _invalid(value_type, name, f"its subject, {mark.subject!r}, is no field of {value_type.__name__}")
        found[name] = _with_default(value_type, name, typing.get_args(hint)[0], mark)
    for name, mark in found.items():
        if mark.subject in found:
            raise _invalid(
                value_type, name, f"its subject, {mark.subject!r}, is personal itself; give an id that is not"
            )
    return found


def _with_default(value_type: type, name: str, hint: object, mark: Personal) -> Personal:
    if mark.erased is not _UNSET:
        return mark
    if type(None) in typing.get_args(hint):
        return Personal(mark.subject, None)
    if hint is str:
        return Personal(mark.subject, "[erased]")
    raise _invalid(value_type, name, f"say what is read after an erasure: Personal(erased=…), of type {hint}")


def _invalid(value_type: type, name: str, why: str) -> TopologyError:
    return TopologyError("INVALID_PERSONAL_FIELD", f"the field {name!r} of {value_type.__name__} is personal; {why}")


def _json_names(value_type: type) -> Mapping[str, str]:
    """Names of fields as JSON has them, where a struct renames them."""
    if not issubclass(value_type, msgspec.Struct):
        return {}
    return dict(zip(value_type.__struct_fields__, value_type.__struct_encode_fields__, strict=True))
