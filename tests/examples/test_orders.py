"""The example of event sourcing prints what its orders did."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "orders.py"


@pytest.mark.long
def test_an_order_that_is_not_paid_expires() -> None:
    done = subprocess.run([sys.executable, EXAMPLE], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.splitlines() == [
        "17 Placed {'item': 'book', 'cents': 1250}",
        "18 Placed {'item': 'pen', 'cents': 300}",
        "17 Paid {'cents': 1250}",
        "18 Expired {}",
    ]
