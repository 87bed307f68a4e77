"""What Spark's JVM logs goes to a file, not to the user's terminal."""

from __future__ import annotations

from hayase.runtime.driver.session import LOG_SETTINGS


def test_the_settings_of_the_jvms_logging_are_where_the_session_looks_for_them() -> None:
    assert "hayase.spark.log" in LOG_SETTINGS.read_text()
