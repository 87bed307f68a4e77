"""CloudEvents attributes as headers of records: the Kafka protocol binding, binary mode."""

from __future__ import annotations

from collections.abc import Mapping

from hayase.core.records import Headers
from hayase.core.time import to_iso

_PREFIX = "ce_"
_CONTENT_TYPE = ("content-type", b"application/json")
_SPEC_VERSION = ("ce_specversion", b"1.0")

ID, TYPE, SOURCE, SUBJECT, TIME = "id", "type", "source", "subject", "time"
CORRELATION, CAUSATION = "correlationid", "causationid"
EXPECTED_VERSION, VERSION, DATA_VERSION = "expectedversion", "aggregateversion", "dataversion"
REPLY_TOPIC, REPLY_PARTITION = "replytopic", "replypartition"
UNDOES = "undoes"
"""The id of the command that an undo takes back."""
REQUEST_DIGEST = "requestdigest"
"""Of a command that came by HTTP: distinguishes a repeat from another command of the same id."""
APPLICATION, COMMAND_SOURCE = "application", "commandsource"
"""Which application decided, and who sent the command. All but the first line are extension attributes."""


def to_headers(attributes: Mapping[str, str | int | None]) -> Headers:
    """The headers of a JSON value with these attributes; those that are `None` are left out.

    Example:
        >>> to_headers({"id": "7", "type": "Pay", "subject": None})[2:]
        (('ce_id', b'7'), ('ce_type', b'Pay'))
    """
    given = ((_PREFIX + name, str(value).encode()) for name, value in attributes.items() if value is not None)
    return (_CONTENT_TYPE, _SPEC_VERSION, *given)


def from_headers(headers: Headers) -> dict[str, str]:
    """The attributes that headers have, by name; of a name that is there twice the last counts.

    Raises:
        UnicodeDecodeError: a value is not UTF-8.

    Example:
        >>> from_headers((("ce_id", b"7"), ("trace", b"1")))
        {'id': '7'}
    """
    return {
        name[len(_PREFIX) :]: value.decode()
        for name, value in headers
        if value is not None and name.startswith(_PREFIX)
    }


def time_text(time_ms: int) -> str:
    """A time as CloudEvents has it: RFC 3339."""
    return to_iso(time_ms)
