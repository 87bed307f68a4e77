"""Functions of URLs, which are read as java.net.URI does."""

from __future__ import annotations

import re
from urllib.parse import quote_plus

from hayase.sql.errors import FunctionError
from hayase.sql.functions.java.uri import parse_uri
from hayase.sql.functions.registry import scalar

_ESCAPES = re.compile(r"(?:%[0-9A-Fa-f]{2})+")
_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")


@scalar("url_encode_param", "(STRING) -> STRING", "The text as a parameter of a URL.")
def url_encode_param(text: str) -> str:
    """URL_ENCODE_PARAM: letters, digits and `-_.*` stay, a space is a plus, others are escaped."""
    return quote_plus(text, safe="*", errors="replace").replace("~", "%7E")


@scalar("url_decode_param", "(STRING) -> STRING", "The text that a parameter of a URL means.")
def url_decode_param(text: str) -> str:
    """URL_DECODE_PARAM."""
    if _BAD_ESCAPE.search(text):
        raise FunctionError("BAD_URL", f"URL parameter {text!r} has a % without two hexadecimal digits behind")
    return _ESCAPES.sub(
        lambda found: bytes.fromhex(found[0].replace("%", "")).decode("utf-8", "replace"), text.replace("+", " ")
    )


@scalar("url_extract_fragment", "(STRING) -> STRING", "The part of a URL behind #.")
def url_extract_fragment(url: str) -> str | None:
    """URL_EXTRACT_FRAGMENT."""
    return parse_uri(url).fragment


@scalar("url_extract_host", "(STRING) -> STRING", "The host of a URL.")
def url_extract_host(url: str) -> str | None:
    """URL_EXTRACT_HOST."""
    return parse_uri(url).host


@scalar("url_extract_path", "(STRING) -> STRING", "The path of a URL.")
def url_extract_path(url: str) -> str | None:
    """URL_EXTRACT_PATH."""
    return parse_uri(url).path


@scalar("url_extract_port", "(STRING) -> INT", "The port of a URL; null if it names none.")
def url_extract_port(url: str) -> int | None:
    """URL_EXTRACT_PORT."""
    return parse_uri(url).port


@scalar("url_extract_protocol", "(STRING) -> STRING", "The protocol of a URL.")
def url_extract_protocol(url: str) -> str | None:
    """URL_EXTRACT_PROTOCOL."""
    return parse_uri(url).scheme


@scalar("url_extract_query", "(STRING) -> STRING", "The query of a URL, decoded.")
def url_extract_query(url: str) -> str | None:
    """URL_EXTRACT_QUERY."""
    return parse_uri(url).query


@scalar("url_extract_parameter", "(STRING, STRING) -> STRING", "A parameter of a URL's query, by name.")
def url_extract_parameter(url: str, name: str) -> str | None:
    """URL_EXTRACT_PARAMETER: the first of that name; without value it is empty."""
    query = parse_uri(url).query
    if query is None:
        return None
    for parameter in query.split("&"):
        key, _, value = parameter.partition("=")
        if key == name:
            return value
    return None
