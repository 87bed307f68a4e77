"""Count and sum per key and session."""

from __future__ import annotations

import argparse
from datetime import timedelta

from bench.ours.application import orders, run
from hayase import Produced, Serdes, SessionWindows, StreamsBuilder, count, sum_

SESSIONS = SessionWindows.of_inactivity_gap_and_grace(timedelta(seconds=30), timedelta(minutes=1))


def build(builder: StreamsBuilder, given: argparse.Namespace) -> None:
    """Orders and amounts of each user, as long as there are no 30 seconds without one."""
    grouped = builder.stream(given.input, orders()).group_by_key().windowed_by(SESSIONS)
    totals = grouped.agg(n=count(), total=sum_("amount"))
    totals.to_stream().to(given.output, Produced.with_(value_serde=Serdes.json()))


if __name__ == "__main__":
    run(build)
