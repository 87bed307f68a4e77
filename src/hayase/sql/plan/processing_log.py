"""The processing log: what failed for one record and did not stop its query."""

from __future__ import annotations

import logging

from hayase.core.record_failures import report_failure

_LOGGER = logging.getLogger("hayase.sql.processing")


def log_failure(step: str, what: str, error: BaseException, row: object = None) -> None:
    """Note that an expression failed for a record, here and in the topic of the processing log.

    Rows are not shown here, since logs are read by others than data is.

    Args:
        step: of the plan.
        what: failed.
        error: that was raised.
        row: that it failed for, where it is known.
    """
    _LOGGER.info("%s: %s failed: %s: %s", step, what, type(error).__name__, error)
    report_failure(step, what, error, row)
