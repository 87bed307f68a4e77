"""Whether Protobuf messages of one file can be read by another one: fields find each other by number."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hayase.serde.protobuf_schema import ProtobufSchema, package


def problems(written: ProtobufSchema, reading: ProtobufSchema) -> Iterator[str]:
    """What keeps messages of `written` from being read by `reading`; nothing: all can be read."""
    after = {descriptor.full_name: descriptor for descriptor in reading.messages.values()}
    for descriptor in written.messages.values():
        if descriptor.full_name not in after:
            yield f"message {descriptor.full_name} is gone"
        else:
            yield from _message(descriptor, after[descriptor.full_name])


def _message(written: Any, reading: Any) -> Iterator[str]:
    after = {field.number: field for field in reading.fields}
    for field in written.fields:
        other = after.get(field.number)
        if other is None:
            if field.containing_oneof is not None and len(field.containing_oneof.fields) > 1:
                yield f"{written.full_name}.{field.name}: a field of a oneof is gone"
            continue
        before, now = _shape(field), _shape(other)
        if before != now:
            yield f"{written.full_name}.{field.name}: {before} cannot be read as {now}"
    known = {field.number for field in written.fields}
    for field in reading.fields:
        if field.is_required and field.number not in known:
            yield f"{reading.full_name}.{field.name}: a required field is new"


def _shape(field: Any) -> str:
    """The type as far as it matters for the bytes."""
    kind = field.message_type.full_name if field.message_type is not None else _group(field)
    return f"repeated {kind}" if field.is_repeated else str(kind)


def _group(field: Any) -> str:
    for group, kinds in _groups().items():
        if field.type in kinds:
            return group
    return str(field.type)


def _groups() -> dict[str, set[int]]:
    """Types whose bytes are read as one another's."""
    kinds = package("google.protobuf.descriptor").FieldDescriptor
    return {
        "a number (varint)": {
            *(kinds.TYPE_INT32, kinds.TYPE_INT64, kinds.TYPE_UINT32, kinds.TYPE_UINT64),
            *(kinds.TYPE_BOOL, kinds.TYPE_ENUM),
        },
        "a signed number (zigzag)": {kinds.TYPE_SINT32, kinds.TYPE_SINT64},
        "text or bytes": {kinds.TYPE_STRING, kinds.TYPE_BYTES},
        "fixed32": {kinds.TYPE_FIXED32, kinds.TYPE_SFIXED32},
        "fixed64": {kinds.TYPE_FIXED64, kinds.TYPE_SFIXED64},
        "float": {kinds.TYPE_FLOAT},
        "double": {kinds.TYPE_DOUBLE},
    }
