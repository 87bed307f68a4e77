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
        ID, TYPE, SOURCE, SUBJECT, TIME, CORRELATION, CAUSATION, EXPECTED_VERSION, VERSION, DATA_VERSION,
        REPLY_TOPIC, REPLY_PARTITION, UNDOES, REQUEST_DIGEST, APPLICATION, COMMAND_SOURCE,
    )
}  # fmt: skip
_ATTRIBUTES = {header: name for name, header in _HEADERS.items()}
"""Names of the known attributes and of their headers, made once: every record has most of them."""


def to_headers(attributes: Mapping[str, str | int | None]) -> Headers:
    """The headers of a JSON value with these attributes; those that are `None` are left out.

    Example:
        >>> to_headers({"id": "7", "type": "Pay", "subject": None})[2:]
        (('ce_id', b'7'), ('ce_type', b'Pay'))
    """
    return (*JSON_EVENT, *pairs(attributes))


def pairs(attributes: Mapping[str, str | int | None]) -> Headers:
    """The headers of attributes alone; those that are `None` are left out."""
    return tuple(
        [
            (_HEADERS.get(name) or _PREFIX + name, str(value).encode())
            for name, value in attributes.items()
            if value is not None
        ]
    )


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


def attribute_values(headers: Headers) -> dict[str, bytes | None]:
    """The headers of attributes by name, with the bytes of their values, which are UTF-8: for what needs few of them.

    Of a name that is there twice the last counts. Where all values are ASCII, other headers are among them, too.

    Raises:
        UnicodeDecodeError: the value of an attribute is not UTF-8.

    Example:
        >>> attribute_values((("ce_id", b"7"),))["ce_id"]
        b'7'
    """
    values = dict(headers)
    if None not in values.values() and b"".join(values.values()).isascii():  # type: ignore[arg-type] # none is None
        return values
    return {header_of(name): value.encode() for name, value in from_headers(headers).items()}


def id_and_type(headers: Headers) -> tuple[str, str]:
    """The id and the type of a record with these headers; empty where they are not there.

    Example:
        >>> id_and_type((("ce_id", b"7"), ("ce_type", b"Pay")))
        ('7', 'Pay')
    """
    values = dict(headers)
    return (values.get("ce_id") or b"").decode(), (values.get("ce_type") or b"").decode()


def header_of(attribute: str) -> str:
    """The name of the header that carries an attribute."""
    return _HEADERS.get(attribute) or _PREFIX + attribute


@lru_cache(maxsize=1024)
def header(attribute: str, text: str) -> tuple[str, bytes]:
    """The header with an attribute, kept for the next record: for values that few records do not share."""
    return header_of(attribute), text.encode()


@lru_cache(maxsize=64)
def data_version_header(version: int) -> tuple[str, bytes]:
    """The header with the version of an event's fields; types have few of them."""
    return header_of(DATA_VERSION), b"%d" % version


@lru_cache(maxsize=64)
def time_header(time_ms: int) -> tuple[str, bytes]:
    """The header with the time of a record; the records of an epoch share it."""
    return header_of(TIME), time_text(time_ms).encode()


@lru_cache(maxsize=64)  # the records of an epoch have one time
def time_text(time_ms: int) -> str:
    """A time as CloudEvents has it: RFC 3339."""
    return to_iso(time_ms)
