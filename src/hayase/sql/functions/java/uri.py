"""URIs as java.net.URI reads them: RFC 2396 with literal IPv6 addresses and characters beyond ASCII."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from hayase.sql.errors import FunctionError

_UNRESERVED = r"A-Za-z0-9\-_.!~*'()"
_OTHER = r"\u00a1-\u1fff\u200b-\u2027\u202a-\u202e\u2030-\u205e\u2060-\u2fff\u3001-\ud7ff\ue000-\U0010ffff"
_ESCAPED = r"%[0-9A-Fa-f]{2}"
_PATH = re.compile(rf"(?:[{_UNRESERVED}:@&=+$,;/{_OTHER}]|{_ESCAPED})*")
_ANY = re.compile(rf"(?:[{_UNRESERVED};/?:@&=+$,\[\]{_OTHER}]|{_ESCAPED})*")
_REGISTRY = re.compile(rf"(?:[{_UNRESERVED}$,;:@&=+\[\]{_OTHER}]|{_ESCAPED})+")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*")
_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9\-]*[A-Za-z0-9])?"
_TOP = r"[A-Za-z](?:[A-Za-z0-9\-]*[A-Za-z0-9])?"
_OCTET = r"(?:25[0-5]|2[0-4]\d|[01]?\d?\d)"
_SERVER = re.compile(
    rf"(?:(?:[{_UNRESERVED};:&=+$,{_OTHER}]|{_ESCAPED})*@)?"
    rf"(?P<host>\[[0-9A-Fa-f:.]+(?:%[\w.\-]+)?\]|{_OCTET}(?:\.{_OCTET}){{3}}|{_LABEL}\.?|(?:{_LABEL}\.)+{_TOP}\.?)"
    r"(?::(?P<port>\d*))?"
)
_ESCAPES = re.compile(rf"(?:{_ESCAPED})+")


@dataclass(frozen=True, slots=True)
class Uri:
    """The parts of a URI, decoded; what it does not have is null."""

    scheme: str | None
    host: str | None
    port: int | None
    path: str | None
    query: str | None
    fragment: str | None


def _decoded(text: str | None) -> str | None:
    """A part with its escapes as characters."""
    if text is None or "%" not in text:
        return text
    return _ESCAPES.sub(lambda found: bytes.fromhex(found[0].replace("%", "")).decode("utf-8", "replace"), text)


def _checked(pattern: re.Pattern[str], part: str, what: str, whole: str) -> str:
    if not pattern.fullmatch(part):
        raise FunctionError("BAD_URL", f"URL input has invalid syntax: {what} of {whole!r}")
    return part


@lru_cache(maxsize=256)
def parse_uri(text: str) -> Uri:
    """The parts of a URI; a `FunctionError` if it is none."""
    if not text:
        return Uri(None, None, None, "", None, None)
    rest, mark, fragment = text.partition("#")
    scheme: str | None = None
    colon = rest.find(":")
    if colon >= 0 and not set("/?") & set(rest[:colon]):
        scheme = _checked(_SCHEME, rest[:colon], "the scheme", text)
        rest = rest[colon + 1 :]
        if not rest:
            raise FunctionError("BAD_URL", f"URL input has invalid syntax: nothing follows the scheme of {text!r}")
    checked_fragment = _decoded(_checked(_ANY, fragment, "the fragment", text)) if mark else None
    if scheme is not None and not rest.startswith("/"):
        _checked(_ANY, rest, "the part behind the scheme", text)
        return Uri(scheme, None, None, None, None, checked_fragment)
    rest, mark, query = rest.partition("?")
    checked_query = _decoded(_checked(_ANY, query, "the query", text)) if mark else None
    host, port, path = _authority(rest, text)
    return Uri(scheme, host, port, _decoded(_checked(_PATH, path, "the path", text)), checked_query, checked_fragment)


def _authority(rest: str, whole: str) -> tuple[str | None, int | None, str]:
    """Host and port, where they are such, and the path."""
    if not rest.startswith("//"):
        return None, None, rest
    end = rest.find("/", 2)
    authority, path = (rest[2:], "") if end < 0 else (rest[2:end], rest[end:])
    if not authority:
        if not path:
            raise FunctionError("BAD_URL", f"URL input has invalid syntax: nothing follows // in {whole!r}")
        return None, None, path
    server = _SERVER.fullmatch(authority)
    if server is None or (server["port"] and int(server["port"]) > 0x7FFFFFFF):
        _checked(_REGISTRY, authority, "the host", whole)
        if authority.startswith("["):
            raise FunctionError("BAD_URL", f"URL input has invalid syntax: the address of {whole!r} is not closed by ]")
        return None, None, path
    return server["host"], int(server["port"]) if server["port"] else None, path
