"""Lines of the Kafka client in our log."""

from __future__ import annotations

import logging

import pytest

import hayase.log.kafka.clients  # noqa: F401 - which sets the logger up

LOGGER = logging.getLogger("hayase.log.kafka")
FENCED = (
    "TXNERR [rdkafka#producer-5] [thrd:main]: Fatal transaction error: Failed to add partitions to transaction: "
    "Local: This instance has been fenced by a newer instance (_FENCED)"
)
OLD_EPOCH = "ADDPARTS [rdkafka#producer-5]: Failed to add: Broker: Producer attempted an operation with an old epoch"


@pytest.mark.parametrize("line", [FENCED, OLD_EPOCH])
def test_a_producer_that_lost_its_id_alarms_nobody(line: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "hayase.log.kafka"):
        LOGGER.critical("%s", line)
    assert caplog.records == []
    with caplog.at_level(logging.INFO, "hayase.log.kafka"):
        LOGGER.critical("%s", line)
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [("INFO", line)]


def test_other_lines_keep_their_level(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "hayase.log.kafka"):
        LOGGER.error("%s", "FAIL: Connection refused")
    assert [record.levelname for record in caplog.records] == ["ERROR"]
