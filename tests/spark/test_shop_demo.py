"""`hayase demo --shop`, as a user runs it: four applications in one Spark, and the proof from their topics."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.spark.test_demo import run_hayase

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]


def test_the_shop_proves_that_every_order_was_shipped_and_paid_or_cancelled(tmp_path: Path) -> None:
    done = run_hayase("demo", "--shop", "--orders", "30", folder=tmp_path, timeout_s=800)
    assert done.returncode == 0, done.stdout + done.stderr
    proven = re.search(r"(\d+) orders are shipped and paid once, (\d+) cancelled", " ".join(done.stdout.split()))
    assert proven is not None and sum(map(int, proven.groups())) == 30
    assert "which was paid and taken back:" in done.stdout and "command Refund to payment" in done.stdout
    assert done.stderr == ""


@pytest.mark.slow
@pytest.mark.parametrize(
    "options", [[], ["--apart"], pytest.param(["--postgres"], marks=pytest.mark.postgres)], ids=" ".join
)
def test_the_proof_holds_when_services_are_killed(options: list[str], tmp_path: Path) -> None:
    done = run_hayase("demo", "--shop", "--orders", "30", "--kill", *options, folder=tmp_path, timeout_s=850)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("killed: ") >= 2, done.stdout
    assert "Proven from the topics of events and the databases alone" in done.stdout


@pytest.mark.slow
@pytest.mark.postgres
def test_the_proof_holds_with_a_payment_service_that_is_slow_fails_and_answers_twice(tmp_path: Path) -> None:
    done = run_hayase("demo", "--shop", "--orders", "30", "--postgres", folder=tmp_path, timeout_s=850)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "event Refunded of payment" in done.stdout and done.stderr == ""
