"""The processing log: what failed for one record and did not stop its query."""

from __future__ import annotations

import logging

_LOGGER = logging.getLogger("hayase.sql.processing")


def log_failure(step: str, what: str, error: BaseException) -> None:
    """Note that an expression failed for a record; rows are not shown, since logs are read by others than data is."""
    _LOGGER.info("%s: %s failed: %s: %s", step, what, type(error).__name__, error)
