"""Reasons in replies and events: texts that can be written, and are not so long that a topic refuses them."""

from __future__ import annotations

from hayase.core.errors import HayaseError

REASON_MAX = 2_000
"""Characters of a reason at most: it goes into replies, and into the events of sagas."""


def shortened(text: str) -> str:
    r"""A reason as it is written: cut where it is too long, without what UTF-8 cannot have.

    Example:
        >>> shortened("no \ud800")
        'no ?'
    """
    if len(text) <= REASON_MAX and text.isascii():
        return text
    if len(text) > REASON_MAX:
        text = f"{text[:REASON_MAX]}… ({len(text)} characters)"
    return text.encode(errors="replace").decode()


def reason_of(error: Exception) -> str:
    """What an error says, as a reason; also of one whose text cannot be made.

    Example:
        >>> reason_of(ValueError("there is no stock"))
        'ValueError: there is no stock'
    """
    if isinstance(error, HayaseError):
        return shortened(error.message)
    try:
        text = str(error)
    except Exception as broken:  # errors are the user's
        text = f"(its text cannot be made: {type(broken).__name__})"
    return shortened(f"{type(error).__name__}: {text}")
