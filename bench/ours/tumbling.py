"""Count and sum per key and minute of event time."""

from __future__ import annotations

import argparse

from bench.ours.application import MINUTES, count_windows, run
from hayase import StreamsBuilder


def build(builder: StreamsBuilder, given: argparse.Namespace) -> None:
    """Windows of a minute that follow each other."""
    count_windows(builder, given, MINUTES)


if __name__ == "__main__":
    run(build)
