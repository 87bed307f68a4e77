"""JSON of a request that a converter can write."""

from __future__ import annotations

import json

_DEPTH_MAX = 100


def json_of(body: bytes) -> object:
    """The value of a body in UTF-8.

    Raises:
        ValueError: it is no JSON, has half of a surrogate pair, or is nested too deeply; the message says so.

    Example:
        >>> json_of(b'{"item": "book"}')
        {'item': 'book'}
    """
    try:
        text = body.decode("utf-8-sig")
        value: object = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError("the body is no JSON") from error
    if "\\ud" in text.lower():
        try:
            json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError as error:
            raise ValueError("the body has a text with half of a surrogate pair, which is no character") from error
    level, depth = [value], 0
    while level:
        depth += 1
        if depth > _DEPTH_MAX:
            raise ValueError(f"the body is nested more deeply than {_DEPTH_MAX} levels")
        level = [inner for each in level for inner in _inner(each)]
    return value


def _inner(value: object) -> list[object]:
    """The objects and lists in a value."""
    found = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [each for each in found if isinstance(each, dict | list)]
