"""Errors are data: a condition, a message that helps, and the context.

HayaseError
├── TopologyError (ValueError)        the topology cannot be built or run as written
├── ConfigError (ValueError)          a setting is unknown, or its value not allowed
├── SerializationError (ValueError)   bytes that are no value, or a value that cannot become bytes
├── SchemaRegistryError               a schema registry is away, refuses, or does not have what was asked for
├── ProcessingError                   user code or an expression failed on a record
├── ProductionError                   a record could not be written
├── LogError                          topics: unknown topic, lost range, broker away
│   ├── UnknownTopicError
│   └── SourceRangeLostError
├── StateError                        stores: damaged, foreign, behind, full disk
│   └── UnknownStoreError (KeyError)
├── CheckpointError                   the checkpoint does not fit what is started on it
├── StorageError                      the storage of the checkpoint cannot be read or written
├── FolderError                       a folder or file of ours is not private, or another process keeps it locked
├── LeaseHeldError                    another copy of the application runs
├── MissingRequirementError (RuntimeError) something is missing on this machine
└── StreamsStoppedError               the application is not in a state that allows the call
"""

from __future__ import annotations

from collections.abc import Mapping

from hayase.core.call_site import users_line


class HayaseError(Exception):
    """Root of every error raised on purpose.

    Attributes:
        condition: a stable name in capitals, e.g. `SOURCE_RANGE_LOST`; what programs should look at.
        message: for people: what was given, what is allowed, what to do.
        context: where it happened: node, task, topic, partition, offset, store, setting, ...
    """

    def __init__(self, condition: str, message: str, **context: object) -> None:
        super().__init__(condition, message)
        self.condition = condition
        self.message = message
        self.context: Mapping[str, object] = {name: value for name, value in context.items() if value is not None}

    @property
    def where(self) -> str:
        """The context as text."""
        return ", ".join(f"{name} {value}" for name, value in self.context.items())

    def __str__(self) -> str:
        where = self.where
        return f"[{self.condition}] {self.message}" + (f" ({where})" if where else "")

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (type(self), self.condition, self.message, dict(self.context)))


def _rebuild(cls: type[HayaseError], condition: str, message: str, context: dict[str, object]) -> HayaseError:
    return cls(condition, message, **context)


class TopologyError(HayaseError, ValueError):
    """The topology cannot be built or run as written.

    Attributes:
        line: file and line of the user's program that it is about: where the node or store that is wrong was made, else
            the call that raised it; `None` if that is not known.
    """

    def __init__(self, condition: str, message: str, *, line: str | None = None, **context: object) -> None:
        super().__init__(condition, message, **context)
        self.line = line or users_line()

    @property
    def where(self) -> str:
        """The context and the line as text."""
        return ", ".join(part for part in (super().where, self.line and f"line {self.line}") if part)

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild_with_line, (type(self), self.condition, self.message, dict(self.context), self.line))


def _rebuild_with_line(
    cls: type[TopologyError], condition: str, message: str, context: dict[str, object], line: str | None
) -> TopologyError:
    error = cls(condition, message, line=line, **context)
    error.line = line
    return error


class ConfigError(HayaseError, ValueError):
    """A setting is unknown or its value is not allowed."""


class SerializationError(HayaseError, ValueError):
    """Bytes that are no value of the serde, or a value that it cannot write."""


class SchemaRegistryError(HayaseError):
    """A schema registry cannot be reached, refuses a request, or does not have what was asked for."""


class ProcessingError(HayaseError):
    """User code or an expression failed on a record; the cause is chained."""


class ProductionError(HayaseError):
    """A record could not be written to its topic."""


class LogError(HayaseError):
    """Something about topics."""


class UnknownTopicError(LogError):
    """The topic does not exist."""


class SourceRangeLostError(LogError):
    """A range that an epoch was to read is no longer there, or not the same any more."""


class StateError(HayaseError):
    """A store is damaged, foreign, behind, or cannot be written."""


class UnknownStoreError(StateError, KeyError):
    """There is no store of that name."""

    __str__ = HayaseError.__str__


class CheckpointError(HayaseError):
    """The checkpoint does not fit what is started on it."""


class StorageError(HayaseError):
    """The storage of the checkpoint cannot be read or written."""


class FolderError(HayaseError):
    """A folder or file that Hayase would use is another user's, or is kept locked by another process."""


class LeaseHeldError(HayaseError):
    """Another copy of the application is running."""


class MissingRequirementError(HayaseError, RuntimeError):
    """Something that must be installed on this machine is not."""


class StreamsStoppedError(HayaseError):
    """The application is not in a state that allows the call."""
