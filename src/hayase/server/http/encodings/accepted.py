"""Which of several media types a client gets."""

from __future__ import annotations

from functools import lru_cache


@lru_cache(maxsize=256)
def accepted(accept: str, offered: tuple[str, ...]) -> str:
    """The media type that a client likes best, of those that are offered; the first one if it names none of them.

    Args:
        accept: the header.
        offered: media types.

    Example:
        >>> accepted("text/html, application/json;q=0.9", ("text/plain", "application/json"))
        'application/json'
    """
    wanted = []
    for place, part in enumerate(accept.split(",")):
        name, *parameters = (each.strip().lower() for each in part.split(";"))
        quality = next((each[2:] for each in parameters if each.startswith("q=")), "1")
        try:
            wanted.append((-float(quality), place, name))
        except ValueError:
            continue
    return next((name for _, _, name in sorted(wanted) if name in offered), offered[0])
