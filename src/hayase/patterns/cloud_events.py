"""CloudEvents attributes as headers of records: the Kafka protocol binding, binary mode."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from hayase.core.records import Headers
from hayase.core.time import to_iso

_PREFIX = "ce_"
JSON_EVENT: Headers = (("content-type", b"application/json"), ("ce_specversion", b"1.0"))
"""With which the headers of every value begin."""

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
_HEADERS = {
    name: _PREFIX + name
    for name in (
        *(ID, TYPE, SOURCE, SUBJECT, TIME, CORRELATION, CAUSATION, EXPECTED_VERSION, VERSION, DATA_VERSION),
        *(REPLY_TOPIC, REPLY_PARTITION, UNDOES, REQUEST_DIGEST, APPLICATION, COMMAND_SOURCE),
    )
}
_ATTRIBUTES = {header: name for name, header in _HEADERS.items()}
"""Names of the known attributes and of their headers, made once: every record has most of them."""


def to_headers(attributes: Mapping[str, str | int | None]) -> Headers:
    """The headers of a JSON value with these attributes; those that are `None` are left out.

    Example:
        >>> to_headers({"id": "7", "type": "Pay", "subject": None})[2:]
        (('ce_id', b'7'), ('ce_type', b'Pay'))
    """
    headers = list(JSON_EVENT)
    for name, value in attributes.items():
        if value is not None:
            headers.append((_HEADERS.get(name) or _PREFIX + name, str(value).encode()))
    return tuple(headers)


def from_headers(headers: Headers) -> dict[str, str]:
    """The attributes that headers have, by name; of a name that is there twice the last counts.

    Raises:
        UnicodeDecodeError: a value is not UTF-8.

    Example:
        >>> from_headers((("ce_id", b"7"), ("trace", b"1")))
        {'id': '7'}
    """
    attributes: dict[str, str] = {}
    for header, value in headers:
        name = _ATTRIBUTES.get(header)
        if name is None:
            if not header.startswith(_PREFIX):
                continue
            name = header[len(_PREFIX) :]
        if value is not None:
            attributes[name] = value.decode()
    return attributes


@lru_cache(maxsize=64)  # the records of an epoch have one time
def time_text(time_ms: int) -> str:
    """A time as CloudEvents has it: RFC 3339."""
    return to_iso(time_ms)
