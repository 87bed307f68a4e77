"""Errors of connectors, transforms and converters.

HayaseError
└── ConnectError            anything a connector, a transform or a converter raises on purpose
    ├── RetriableError      the same call may succeed later: the worker repeats it
    └── DataError           a value does not fit its schema, or bytes are no value
"""

from __future__ import annotations

from hayase.core.errors import HayaseError

TARGET_REFUSES = "TARGET_REFUSES"
"""Condition of an error of a sink that is of no record, as a lacking privilege: no record is left out for it."""


class ConnectError(HayaseError):
    """A connector, a transform or a converter failed."""


class RetriableError(ConnectError):
    """A failure that may pass: the worker calls again with the same arguments, after a pause that grows."""


class DataError(ConnectError):
    """A value that does not fit its schema, or bytes that are no value."""
