"""Count and sum per key and minute of event time, a new window every ten seconds."""

from __future__ import annotations

import argparse
from datetime import timedelta

from bench.ours.application import MINUTES, count_windows, run
from hayase import StreamsBuilder


def build(builder: StreamsBuilder, given: argparse.Namespace) -> None:
    """Each order counts in six windows."""
    count_windows(builder, given, MINUTES.advance_by(timedelta(seconds=10)))


if __name__ == "__main__":
    run(build)
