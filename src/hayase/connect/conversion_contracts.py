"""Contracts of what stands between a connector and its topics: transforms, predicates, converters."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

from hayase.connect.columns import SingleColumn, StructColumns
from hayase.connect.model import ConnectHeaders, ConnectRecord
from hayase.connect.plugin_contracts import Versioned
from hayase.connect.schema import ConnectSchema, SchemaAndValue
from hayase.core.records import Headers


class Transformation(Versioned, ABC):
    """A single message transform."""

    def configure(self, props: Mapping[str, object]) -> None:
        """Take the configuration; called once."""

    @abstractmethod
    def apply(self, record: ConnectRecord) -> ConnectRecord | None:
        """The record to go on with, of the same class; `None` drops it."""

    def close(self) -> None:
        """Let go of everything."""


class Predicate(Versioned, ABC):
    """Says of which records a transform is applied."""

    def configure(self, props: Mapping[str, object]) -> None:
        """Take the configuration; called once."""

    @abstractmethod
    def test(self, record: ConnectRecord) -> bool:
        """Whether it holds for the record."""

    def close(self) -> None:
        """Let go of everything."""


class Converter(Versioned, ABC):
    """Bytes of topics from and to values with schemas."""

    def configure(self, props: Mapping[str, object], is_key: bool) -> None:
        """Take the configuration, for keys or for values; called once."""

    @abstractmethod
    def from_connect_data(
        self, topic: str, headers: ConnectHeaders, schema: ConnectSchema | None, value: object
    ) -> bytes | None:
        """The bytes of a value; raises `DataError` for what it cannot write."""

    @abstractmethod
    def to_connect_data(self, topic: str, headers: Headers, data: bytes | None) -> SchemaAndValue:
        """The value that bytes hold; raises `DataError` for what are no such bytes."""

    def to_connect_columns(self, topic: str, data: Sequence[bytes | None]) -> StructColumns | SingleColumn | None:
        """The values that bytes hold, by column: the same values as `to_connect_data` gives.

        `None`: bytes that are not null are not of one schema, or cannot be read, or this converter has no columns; then
        values are read one by one. At least one of the values is not null.
        """
        return None

    def close(self) -> None:
        """Let go of everything."""


class HeaderConverter(Versioned, ABC):
    """Bytes of headers from and to values with schemas."""

    def configure(self, props: Mapping[str, object], is_key: bool = False) -> None:
        """Take the configuration; called once."""

    @abstractmethod
    def from_connect_header(self, topic: str, name: str, schema: ConnectSchema | None, value: object) -> bytes | None:
        """The bytes of a header's value."""

    @abstractmethod
    def to_connect_header(self, topic: str, name: str, data: bytes | None) -> SchemaAndValue:
        """The value that a header's bytes hold."""

    def close(self) -> None:
        """Let go of everything."""
