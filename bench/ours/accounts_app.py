"""The accounts as a process of its own, which runs until SIGTERM: `python -m bench.ours.accounts_app SETTINGS`."""

from __future__ import annotations

import json
import signal
import sys
import threading

from bench.ours import accounts as program
from hayase import StreamsBuilder
from hayase.patterns import PatternsApp
from hayase.runtime.wire.pickling import by_value


def main(settings: dict[str, object], partitions: int) -> None:
    """Run the application."""
    by_value(program)
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    builder = StreamsBuilder()
    program.accounts().add_to(builder)
    with PatternsApp(builder, settings, partitions=partitions) as app:
        app.start()
        ended.wait()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]), int(sys.argv[2]))
