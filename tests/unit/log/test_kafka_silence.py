"""Brokers that do not answer are named soon, not after a minute."""

from __future__ import annotations

import logging
import time

import pytest

from hayase.log.open import open_log_of_user
from hayase.log.protocol import LogConfig


@pytest.mark.long
def test_a_cluster_that_does_not_answer_is_named_at_once_with_the_reason(caplog: pytest.LogCaptureFixture) -> None:
    began = time.monotonic()
    with caplog.at_level(logging.WARNING):
        open_log_of_user(LogConfig("kafka", "127.0.0.1:1")).close()
    assert "no answer from the Kafka cluster at 127.0.0.1:1, waiting for it" in caplog.text
    assert "Connection refused" in caplog.text
    assert time.monotonic() - began < 30
