"""Protobuf schemas of a registry: compiled to descriptors, and the numbers by which records name their message.

A registry holds the text of a .proto file, or what programs without one register in its place: the file's descriptor in
base64. Text is compiled by protoc, which grpcio-tools carries; Google's own package reads descriptors only.
"""

from __future__ import annotations

import base64
import binascii
import importlib
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from hayase.core.errors import ConfigError, MissingRequirementError
from hayase.serde.registry import RegistrySchema, SchemaReference, check_references

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor, FileDescriptor

_MAIN = "__schema__.proto"  # no file of that name is imported by another one
_IMPORT = re.compile(r'\bimport\s+(?:public\s+|weak\s+)?"([^"]+)"\s*;')
_FILE_NAME = re.compile(r"(?!-)[^\x00-\x1f\x7f\\:*?\"<>|/]+(?:/[^\x00-\x1f\x7f\\:*?\"<>|/]+)*")
_FILE_NAME_MAX = 1000
_BASE64 = re.compile(r"[A-Za-z0-9+/\s]+(?:=[=\s]*)?")  # every .proto file has braces, quotes or semicolons
_PROTOC_SECONDS = 60
_IMPORT_DEPTH_MAX = 100
_MAX_DEPTH = 100  # of nested messages: more is no list of indexes
_CONFLUENT = "confluent_kafka.schema_registry."
_BUILT_IN = ("google/protobuf/", "google/type/", "confluent/")
"""Files that every registry and every client has."""


class ProtobufSchema:
    """The messages of a .proto file.

    Args:
        files: serialized file descriptors, each behind those it imports; the last is the file itself.
    """

    def __init__(self, files: Sequence[bytes]) -> None:
        descriptor_pb2 = package("google.protobuf.descriptor_pb2")
        pool = package("google.protobuf.descriptor_pool").DescriptorPool()
        self.files = tuple(files)
        try:
            for each in files:
                pool.AddSerializedFile(each)
            name = descriptor_pb2.FileDescriptorProto.FromString(files[-1]).name
            self._file = pool.FindFileByName(name)
        except (TypeError, KeyError, ValueError) as error:
            raise ConfigError(
                "INVALID_SCHEMA", f"the descriptors of a .proto file do not fit together: {error}"
            ) from error
        self._pool = pool
        self.name = str(name)

    def imports(self) -> dict[str, tuple[str, ...]]:
        """The files that each file imports."""
        imported: dict[str, tuple[str, ...]] = {}
        waiting = [self._file]
        while waiting:
            file = waiting.pop()
            if file.name not in imported:
                imported[file.name] = tuple(each.name for each in file.dependencies)
                waiting += file.dependencies
        return imported

    def text(self, name: str) -> str:
        """What is registered for a file of which there is only the descriptor."""
        return as_text(self._pool.FindFileByName(name))

    @cached_property
    def messages(self) -> dict[tuple[int, ...], Descriptor]:
        """The file's messages by their indexes, nested ones included."""
        return dict(_walk(self._file.message_types_by_name.values(), ()))

    def message(self, name: str | None) -> tuple[tuple[int, ...], Descriptor]:
        """Indexes and descriptor of a message.

        Args:
            name: its full name, or without the package; `None`: the first of the file.

        Raises:
            ConfigError: `INVALID_SCHEMA`: there is none.
        """
        for indexes, descriptor in self.messages.items():
            if name in (None, descriptor.full_name, _inside(descriptor)):
                return indexes, descriptor
        names = ", ".join(each.full_name for each in self.messages.values()) or "none"
        what = "a message" if name is None else f"the message {name!r}"
        raise ConfigError("INVALID_SCHEMA", f"the .proto file does not have {what}; it has {names}")


def schema_of_descriptor(descriptor: Descriptor) -> ProtobufSchema:
    """The schema of the file that a message is from."""
    files: dict[str, bytes] = {}

    def add(file: FileDescriptor) -> None:
        if file.name not in files:
            for imported in file.dependencies:
                add(imported)
            files[file.name] = file.serialized_pb

    add(descriptor.file)
    return ProtobufSchema(list(files.values()))


def compiled(schema: RegistrySchema, fetch: Callable[[SchemaReference], RegistrySchema]) -> ProtobufSchema:
    """A schema of a registry, compiled.

    Args:
        schema: text of a .proto file, or its descriptor in base64.
        fetch: gets a schema that another one refers to.

    Raises:
        ConfigError: `INVALID_SCHEMA`: protoc does not take it; the text has its words.
        MissingRequirementError: the packages are not installed.
    """
    files: dict[str, bytes] = {}
    _add(schema, _MAIN, fetch, files, ())
    return ProtobufSchema(list(files.values()))


def is_built_in(name: str) -> bool:
    """Whether a file of this name is never registered, since all have it."""
    return name.startswith(_BUILT_IN)


def as_text(file: FileDescriptor) -> str:
    """What is registered for a file of which there is only the descriptor."""
    return base64.standard_b64encode(file.serialized_pb).decode()


def package(name: str) -> ModuleType:
    """A module of Google's packages; raises MissingRequirementError."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise MissingRequirementError(
            "PACKAGE_MISSING", f"Protobuf needs the extra: pip install 'hayase[schema-registry]' ({error})"
        ) from error


def write_indexes(indexes: Sequence[int]) -> bytes:
    """The indexes as records carry them: how many, then each, as zigzag varints; the first message is a single zero."""
    if tuple(indexes) == (0,):
        return b"\0"
    data = bytearray()
    for number in (len(indexes), *indexes):
        rest = number << 1
        while rest > 0x7F:
            data.append(rest & 0x7F | 0x80)
            rest >>= 7
        data.append(rest)
    return bytes(data)


def read_indexes(data: bytes, at: int) -> tuple[tuple[int, ...], int]:
    """The indexes that begin at a place, and where they end; raises ValueError."""
    count, at = _varint(data, at)
    if count == 0:
        return (0,), at
    if count > _MAX_DEPTH:
        raise ValueError(f"{count} message indexes")
    indexes = []
    for _ in range(count):
        number, at = _varint(data, at)
        indexes.append(number)
    return tuple(indexes), at


def _varint(data: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while at < len(data) and shift < 35:
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            if number & 1:
                raise ValueError("a negative message index")
            return number >> 1, at
    raise ValueError("the message indexes end too early")


def _walk(messages: Iterable[Descriptor], outer: tuple[int, ...]) -> Iterator[tuple[tuple[int, ...], Descriptor]]:
    # Entries of maps are messages to protoc; no index counts them.
    counted = [each for each in messages if not each.GetOptions().map_entry]
    for index, each in enumerate(counted):
        yield (*outer, index), each
        yield from _walk(each.nested_types, (*outer, index))


def _inside(message: Descriptor) -> str:
    return (
        str(message.full_name).removeprefix(f"{message.file.package}.") if message.file.package else message.full_name
    )


def check_file_name(name: str) -> None:
    """Raises ConfigError `INVALID_SCHEMA` for what is no relative path of a file, with `/` between its parts."""
    parts = name.split("/")
    if not _FILE_NAME.fullmatch(name) or len(name) > _FILE_NAME_MAX or {".", ".."} & set(parts) or name == _MAIN:
        raise ConfigError(
            "INVALID_SCHEMA",
            f"a Protobuf schema refers to a file {name[:200]!r}; allowed are relative names such as "
            "'shop/order.proto', without '.' and '..' as parts and not beginning with '-'",
        )


def _add(
    schema: RegistrySchema,
    name: str,
    fetch: Callable[[SchemaReference], RegistrySchema],
    files: dict[str, bytes],
    within: tuple[str, ...],
) -> None:
    within = (*within, name)
    for reference in schema.references:
        check_file_name(reference.name)
        if reference.name in within or len(within) > _IMPORT_DEPTH_MAX:
            raise ConfigError(
                "INVALID_SCHEMA",
                f"the imports of a Protobuf schema are a circle, or too deep: {' > '.join(within[-5:])}",
            )
        if reference.name not in files:
            check_references(len(files))
            _add(fetch(reference), reference.name, fetch, files, within)
    if not _BASE64.fullmatch(schema.text):
        for imported in _IMPORT.findall(schema.text):
            _add_built_in(imported, files)
        files[name] = _protoc(schema.text, name, tuple(files.values()))
        return
    descriptor = package("google.protobuf.descriptor_pb2").FileDescriptorProto()
    try:
        descriptor.ParseFromString(base64.b64decode(schema.text))
    except (package("google.protobuf.message").DecodeError, binascii.Error, ValueError) as error:
        raise ConfigError(
            "INVALID_SCHEMA",
            f"a Protobuf schema is a .proto file or its descriptor in base64; this is {schema.text!r:.200}",
        ) from error
    for imported in descriptor.dependency:
        _add_built_in(imported, files)
    descriptor.name = name
    files[name] = descriptor.SerializeToString()


def _add_built_in(name: str, files: dict[str, bytes]) -> None:
    """A file that is not registered because every client has it; of another name: protoc says that it is missing."""
    if name in files or not is_built_in(name):
        return
    if name in GOOGLE_TYPES:  # Google's package does not have them
        files[name] = google_type(name)
        return
    module = name.removesuffix(".proto").replace("/", ".") + "_pb2"
    try:
        file = importlib.import_module(module if name.startswith("google/") else _CONFLUENT + module).DESCRIPTOR
    except ImportError:
        return
    for imported in file.dependencies:
        _add_built_in(imported.name, files)
    files[name] = file.serialized_pb


GOOGLE_TYPES = {
    "google/type/date.proto": ("Date", ("year", "month", "day")),
    "google/type/timeofday.proto": ("TimeOfDay", ("hours", "minutes", "seconds", "nanos")),
}
"""Files of Google's common types that converters write: the message of each, and its fields, all `int32`."""


@lru_cache
def google_type(name: str) -> bytes:
    """The descriptor of one of `GOOGLE_TYPES`."""
    descriptor_pb2 = package("google.protobuf.descriptor_pb2")
    message, field_names = GOOGLE_TYPES[name]
    file = descriptor_pb2.FileDescriptorProto(name=name, package="google.type", syntax="proto3")
    made = file.message_type.add(name=message)
    kind = descriptor_pb2.FieldDescriptorProto
    for number, field_name in enumerate(field_names, 1):
        made.field.add(name=field_name, number=number, type=kind.TYPE_INT32, label=kind.LABEL_OPTIONAL)
    serialized: bytes = file.SerializeToString()
    return serialized


@lru_cache(maxsize=64)
def _protoc(text: str, name: str, imported: tuple[bytes, ...]) -> bytes:
    """The descriptor of a .proto file; in a process of its own, since protoc writes its complaints to stderr."""
    package("grpc_tools")
    descriptor_pb2 = package("google.protobuf.descriptor_pb2")
    known = descriptor_pb2.FileDescriptorSet(
        file=[descriptor_pb2.FileDescriptorProto.FromString(each) for each in imported]
    )
    with tempfile.TemporaryDirectory(prefix="hayase-protoc-") as temporary:
        folder = Path(temporary)
        source = folder / "in" / _MAIN  # no name of a registry becomes a path, or an argument of protoc
        source.parent.mkdir()
        source.write_text(text, encoding="utf-8", errors="replace")
        (folder / "known").write_bytes(known.SerializeToString())
        command = [sys.executable, "-m", "grpc_tools.protoc", f"--proto_path={folder / 'in'}"]
        command += [f"--descriptor_set_in={folder / 'known'}", f"--descriptor_set_out={folder / 'out'}", _MAIN]
        done = _run(command)
        if done.returncode:
            said = done.stderr.strip().replace(_MAIN, "the schema") or f"it ended with {done.returncode}"
            raise ConfigError("INVALID_SCHEMA", f"protoc does not take the .proto file: {said}")
        made_set = descriptor_pb2.FileDescriptorSet.FromString((folder / "out").read_bytes())
    made_set.file[-1].name = name
    serialized: bytes = made_set.file[-1].SerializeToString()
    return serialized


def _run(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_PROTOC_SECONDS,
            stdin=subprocess.DEVNULL,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise ConfigError(
            "INVALID_SCHEMA", f"protoc did not come to an end with the .proto file within {_PROTOC_SECONDS} s"
        ) from error
