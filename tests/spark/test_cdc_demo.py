"""`hayase demo --cdc`, as a user runs it: a real PostgreSQL, connectors, Spark, and the proof at the end."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.spark.test_demo import run_hayase

pytestmark = [pytest.mark.spark, pytest.mark.postgres, pytest.mark.slow, pytest.mark.timeout(900)]


def test_sales_in_postgresql_and_files_equal_the_batch_computation_over_the_audit_table(tmp_path: Path) -> None:
    done = run_hayase("demo", "--cdc", "--orders", "60", folder=tmp_path, timeout_s=800)
    said = " ".join(done.stdout.split())
    assert done.returncode == 0, done.stdout + done.stderr
    assert "over its own audit table: equal, to the row: " in said
    assert "60 orders, while " in said
    assert "6 orders were sent twice and count once" in said
    assert "Sales per product and region, latest windows of 6 hours" in said
    assert done.stderr == ""
