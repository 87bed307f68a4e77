"""The application that the crash suite kills: `python -m tests.crash.app_under_test SPEC.json`, a process of its own.

Its tags and nonces are random, so running a record twice gives something else: whatever is both written and kept in a
store betrays a re-execution. Row and column form, a stream-table join, and both kinds of rows between tasks occur.
"""

from __future__ import annotations

import os
import secrets
import signal
import sys
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import msgspec
import polars as pl
import psutil

from hayase import (
    Consumed,
    FixedKeyProcessor,
    FixedKeyRecord,
    Grouped,
    HayaseError,
    Materialized,
    Produced,
    Repartitioned,
    Serdes,
    Stores,
    StreamsApp,
    StreamsBuilder,
    Topology,
    count,
    left,
    right,
    sum_,
)
from hayase.compiler.build import source_topics
from hayase.core.records import TopicPartition
from hayase.log.config import log_config
from hayase.log.open import open_log

GROUPS = 5
ORDER = {"id": pl.Int64, "amount": pl.Int64}
USER = {"region": pl.String}


class Spec(msgspec.Struct, frozen=True):
    """One start.

    Attributes:
        settings: of the application.
        prefix: of all topics.
        pids: file that gets the process ids of JVM and driver, one a line, once both are there.
        bounded: run to the end of the input, or until `stop` exists.
        stop: file that tells a continuous run that the input is complete.
        through: see `build`.
        minutes: how long a bounded run may take.
    """

    settings: dict[str, Any]
    prefix: str
    pids: str
    bounded: bool = True
    stop: str = ""
    through: bool = False
    minutes: float = 4


def build(prefix: str, *, through: bool = False, extra: str = "") -> Topology:
    """The topology; topics begin with the prefix.

    `through`: events are counted behind an internal topic of the log as well. `extra`: orders are counted in one more
    store of that name.
    """
    builder = StreamsBuilder()
    text, json = Serdes.string(), Serdes.json()
    events = builder.stream(f"{prefix}events", Consumed.with_(text, json))
    builder.add_state_store(Stores.key_value_store("memory", text, json))
    noisy = events.process_values(Remembering, "memory").map_values(_add_noise)
    noisy.to(f"{prefix}noisy", Produced.with_(text, json))
    for name, grouped in (
        ("noise", noisy.group_by_key(Grouped.with_(text, json))),
        ("groups", noisy.group_by(_random_group, Grouped.with_(text, json))),
    ):
        kept = Materialized.as_(name).with_key_serde(text).with_value_serde(json)
        table = grouped.aggregate(_nothing, _add, kept)
        table.to_stream().to(f"{prefix}{name}", Produced.with_(text, json))

    orders = builder.stream(f"{prefix}orders", Consumed.with_(text, Serdes.json(schema=ORDER)))
    users = builder.table(f"{prefix}users", Consumed.with_(text, Serdes.json(schema=USER)))
    enriched = orders.join(users, {"id": left("id"), "amount": left("amount"), "region": right("region")})
    enriched.to(f"{prefix}enriched", Produced.with_(text, json))
    for name, grouped in (
        ("totals", orders.group_by_key()),
        ("regions", enriched.group_by(pl.col("region"), Grouped.with_(text))),
    ):
        table = grouped.agg(Materialized.as_(name), n=count(), total=sum_("amount"))
        table.to_stream().to(f"{prefix}{name}", Produced.with_(text, json))
    if through:
        passed = events.repartition(Repartitioned.with_(text, json, "passed")).group_by_key(Grouped.with_(text, json))
        counts = passed.count(Materialized.as_("passed").with_value_serde(json))
        counts.to_stream().to(f"{prefix}passed", Produced.with_(text, json))
    if extra:
        by_rest = orders.group_by(pl.format("{}", pl.col("amount") % 3), Grouped.with_(text, name=extra))
        by_rest.agg(Materialized.as_(extra), n=count())
    return builder.build()


class Remembering(FixedKeyProcessor[str, Any, Any]):
    """Passes records on, and counts them in a field as well as in a store.

    It fails if it remembers what did not happen.
    """

    def init(self, context: Any) -> None:
        self.context, self.store = context, context.get_state_store("memory")
        self.count = self.store.get("n") or 0

    def process(self, record: FixedKeyRecord[str, Any]) -> None:
        stored = self.store.get("n") or 0
        if stored != self.count:
            raise RuntimeError(f"{self.count} records are remembered, {stored} are in the store")
        self.count += 1
        self.store.put("n", self.count)
        self.context.forward(record)


def _add_noise(value: dict[str, Any]) -> dict[str, Any]:
    return {**value, "nonce": 1 + secrets.randbelow(1_000_000), "tag": uuid4().hex}


def _random_group(_: str, value: dict[str, Any]) -> str:
    return f"g{value['nonce'] % GROUPS}"


def _nothing() -> dict[str, Any]:
    return {"n": 0, "sum": 0, "tag": ""}


def _add(_: str, value: dict[str, Any], total: dict[str, Any]) -> dict[str, Any]:
    return {"n": total["n"] + 1, "sum": total["sum"] + value["nonce"], "tag": value["tag"]}


def publish_pids(path: Path) -> None:
    """Writes the process ids of JVM and driver, to be killed in this order; the file appears when both are known."""
    driver = psutil.Process()
    while not (jvms := [child.pid for child in driver.children() if child.name() == "java"]):
        time.sleep(0.02)
    temporary = path.with_suffix(".new")
    temporary.write_text("\n".join(map(str, (*jvms, driver.pid))))
    temporary.replace(path)


def _has_read_all(app: StreamsApp) -> bool:
    """By what is committed: the lag that an application tells is as old as its last look at the log."""
    log = open_log(log_config(app.config))
    try:
        topics = log.describe(source_topics(app.topology))
        ends = log.end_offsets(
            [TopicPartition(name, p) for name, info in topics.items() for p in range(info.partitions)]
        )
        done = log.group_offsets(app.config.application_id)
    finally:
        log.close()
    return all(done.get(partition, 0) >= end for partition, end in ends.items())


def run(build_topology: Callable[[Spec], Topology], kind: type[StreamsApp] = StreamsApp) -> int:
    """Run as the spec says; 1 if the application failed, with the reason on standard error."""
    spec = msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=Spec)
    threading.Thread(target=publish_pids, args=(Path(spec.pids),), daemon=True).start()
    app = kind(build_topology(spec), spec.settings)
    signal.signal(signal.SIGTERM, lambda *_: app.close())
    try:
        if spec.bounded:
            app.run_to_end(timedelta(minutes=spec.minutes))
        else:
            app.start()
            while app.state.running and not (Path(spec.stop).exists() and _has_read_all(app)):
                time.sleep(0.05)
            app.close()
            if app.error is not None:
                raise app.error
    except HayaseError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def main(build_topology: Callable[[Spec], Topology], kind: type[StreamsApp] = StreamsApp) -> None:
    """Run, and end the process without waiting for threads that may hang."""
    code = run(build_topology, kind)
    sys.stdout.flush()
    os._exit(code)


if __name__ == "__main__":
    main(lambda spec: build(spec.prefix, through=spec.through))
