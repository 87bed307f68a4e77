"""The command that starts an application over, completed in errors of parts that do not know the application's id."""

from __future__ import annotations

import re

from hayase.core.errors import HayaseError

_WITHOUT_ID = re.compile(r"`hayase app reset( --markers-only)?`")


def name_application(error: HayaseError, application_id: str) -> None:
    """Put the id into the commands that an error proposes, so that they can be run as they are.

    Example:
        >>> error = HayaseError("SOURCE_RANGE_LOST", "start over with `hayase app reset`")
        >>> name_application(error, "shop")
        >>> error.message
        'start over with `hayase app reset shop`'
    """
    error.message = _WITHOUT_ID.sub(lambda found: f"`hayase app reset{found[1] or ''} {application_id}`", error.message)
