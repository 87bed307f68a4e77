"""Values of settings: what reads the text of one, and says what is allowed where it does not fit.

Each reader takes the text and returns the typed value, or raises ValueError with what is allowed.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

Read = Callable[[str], object]

INT_MAX = 2**31 - 1
_LONG_MAX = 2**63 - 1
_NUMBER = re.compile(r"[+-]?\d{1,30}")
_ID = re.compile(r"[A-Za-z0-9._-]+")
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
_FORMATS = ("AVRO", "DELIMITED", "JSON", "JSON_SR", "KAFKA", "NONE", "PROTOBUF", "PROTOBUF_NOSR")
_GONE_GUARANTEES = ("exactly_once", "exactly_once_beta")


@dataclass(frozen=True)
class Listener:
    """Where a server listens, e.g. `http://127.0.0.1:8088`."""

    host: str
    port: int
    is_tls: bool = False

    @property
    def url(self) -> str:
        """As clients write it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.is_tls else 'http'}://{host}:{self.port}"


def any_text(text: str) -> str:
    """Any text."""
    return text


def path(text: str) -> Path | None:
    """A file or folder; `None` if the text is empty."""
    return Path(text) if text else None


def boolean(text: str) -> bool:
    """True or false."""
    if text.lower() not in ("true", "false"):
        raise ValueError("allowed are true and false")
    return text.lower() == "true"


def whole(minimum: int, maximum: int = _LONG_MAX) -> Callable[[str], int]:
    """A whole number within bounds."""

    def read(text: str) -> int:
        if not _NUMBER.fullmatch(text) or not minimum <= int(text) <= maximum:
            end = "on" if maximum == _LONG_MAX else f"to {maximum}"
            raise ValueError(f"allowed is a whole number from {minimum} {end}")
        return int(text)

    return read


def limit(text: str) -> int | None:
    """A largest number; ksqlDB's largest numbers mean no limit."""
    number = whole(1)(text)
    return None if number >= INT_MAX else number


def one_of(*allowed: str) -> Callable[[str], str]:
    """One of some words, in any case."""

    def read(text: str) -> str:
        for word in allowed:
            if text.upper() == word.upper():
                return word
        raise ValueError(f"allowed are {', '.join(allowed)}")

    return read


def guarantee(text: str) -> str:
    """The processing guarantee, under Kafka Streams' names."""
    if text in _GONE_GUARANTEES:
        raise ValueError("exactly_once and exactly_once_beta are gone since Kafka Streams 4: use exactly_once_v2")
    if text not in ("at_least_once", "exactly_once_v2"):
        raise ValueError("allowed are at_least_once, exactly_once_v2")
    return text


def names(text: str) -> tuple[str, ...]:
    """Names between commas."""
    return tuple(part for part in (each.strip() for each in text.split(",")) if part)


def patterns(text: str) -> tuple[str, ...]:
    """Regular expressions between commas."""
    found = names(text)
    for pattern in found:
        try:
            re.compile(pattern)
        except re.error as error:
            raise ValueError(f"{pattern!r} is no regular expression: {error}") from error
    return found


def service_id(text: str) -> str:
    """A name that topics can begin with."""
    if not _ID.fullmatch(text):
        raise ValueError("letters, digits, '.', '_' and '-' are allowed, because topics are named by it")
    return text


def topic_name(text: str) -> str:
    """The name of a topic."""
    if not _TOPIC.fullmatch(text) or text in (".", ".."):
        raise ValueError("1 to 249 letters, digits, '.', '_' and '-' are allowed, as in all names of topics")
    return text


def topic_prefix(text: str) -> str:
    """What names of topics can begin with; it may be empty."""
    return text and topic_name(text)


def not_empty(text: str) -> str:
    """Text that is not empty."""
    if not text:
        raise ValueError("give a text that is not empty")
    return text


def format_name(text: str) -> str:
    """The name of a format."""
    return one_of(*_FORMATS)(text)


def listener(text: str) -> Listener:
    """One address of a server."""
    if "," in text:
        raise ValueError("give one address; the server speaks HTTP/1.1, HTTP/2 and WebSocket on one port")
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.port is None or parts.path not in ("", "/"):
        raise ValueError("write http://HOST:PORT or https://HOST:PORT")
    return Listener(parts.hostname, parts.port, parts.scheme == "https")


def http_url(text: str) -> str:
    """The address of a service, without user and password."""
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("write http://HOST:PORT or https://HOST:PORT")
    if parts.username is not None:
        raise ValueError("user and password belong into ksql.connect.basic.auth.credentials.file")
    return text
