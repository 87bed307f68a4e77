"""The shop of `examples/shop` as one application, run epoch by epoch in this process, with trouble."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

from tests.examples.shop_services import messages, wished
from tests.examples.ways_of_answers import answers_through_topics
from tests.unit.patterns.shop_model import COPY, ORDER, PARTS, STOCK
from tests.unit.query.local_app import LocalApp

from hayase.cli.demo.shop_customers import Wish
from hayase.cli.demo.shop_facts import Facts
from hayase.core import failpoints
from hayase.core.failpoints import FailpointError
from hayase.core.records import SourceRecord, TopicPartition
from hayase.log.protocol import OutputBatch
from hayase.patterns import EventSourced
from hayase.patterns.command_reading import command_headers
from hayase.patterns.replies import decode_reply
from hayase.storage.lmdb_env import close_environment

PARTITIONS = 2
_REPEATED = tuple(f"{part.name}-{kind}" for part in PARTS for kind in ("commands", "replies"))
_QUIET_MS, _TROUBLED_MS = 5_000, (500, 1_000, 5_000, 15_000)
_DOWNTIME_MS = 31 * 60_000
"""Longer than the deadline of an order; less than ids of commands are kept, together with all other epochs."""


class ShopInEpochs:
    """All services, with epochs that are cut anywhere, fail at any step, and keep partitions waiting.

    Args:
        folder: of log, checkpoint and state.
        random: of the trouble.
        apart: the saga reads all answers from topics, as if each service were an application.
    """

    def __init__(self, folder: Path, random: Random, *, apart: bool) -> None:
        self.random = random
        with answers_through_topics() if apart else nullcontext():
            topology = ORDER.topology(*PARTS[1:])
        self.app = LocalApp(folder, topology, partitions=PARTITIONS)
        for topic in sorted({topic for part in PARTS for topic in part.topics} - {*self.app.counts}):
            self.app.log.create_topic(topic, PARTITIONS)
        self._facts = Facts(self.app.log)
        self._waiting: set[TopicPartition] = set()
        self._sent: dict[str, OutputBatch] = {}
        self.now_ms = 0
        self.failed_attempts = 0

    def send(self, aggregate: EventSourced[Any, Any, Any], wish: Wish) -> None:
        """A command of a customer or the supplier."""
        made = wished(aggregate, wish)
        command_id = f"c{len(self._sent)}"
        headers = command_headers(made, command_id, "/customers", 0, {})
        batch = OutputBatch(made.topic, [wish.key.encode()], [made.data], [0], None, [headers])
        self._sent[command_id] = batch
        self.app.writer().append([batch])

    def repeat_some(self, count: int) -> None:
        """Write commands and replies a second time."""
        for records in map(self.records, self.random.choices(_REPEATED, k=count)):
            if not records:
                continue
            copied = self.random.choice(records)
            headers = ((COPY, b"1"), *copied.headers)
            batch = OutputBatch(copied.topic, [copied.key], [copied.value], [0], None, [headers])
            self.app.writer().append([batch])

    def troubled_epoch(self) -> None:
        """An epoch that is cut anywhere, in which attempts fail at any step, and some partitions are not read."""
        places = [TopicPartition(topic, n) for topic, count in self.app.counts.items() for n in range(count)]
        ends = self.app.log.end_offsets(places)
        upto = {}
        for place in places:
            waits = place in self._waiting
            if self.random.random() < (0.25 if waits else 0.06):
                self._waiting ^= {place}
            if place in self._waiting:
                upto[place] = 0
            elif self.random.random() < 0.2:
                upto[place] = self.random.randint(0, ends[place])
        self._epoch(self.random.choice(_TROUBLED_MS), upto, fail=0.05)

    def downtime(self) -> None:
        """Nothing runs for so long that deadlines pass."""
        self._epoch(_DOWNTIME_MS)

    def settle(self, orders: int, epochs_max: int = 250) -> Any:
        """Without trouble, until nothing more is to come; the ledger of what happened."""
        for _ in range(epochs_max):
            self._epoch(_QUIET_MS)
            self._send_failed_again()
            self._facts.read()
            if self._facts.ledger.settled(orders) and not self._unread():
                break
        return self._facts.ledger

    def _send_failed_again(self) -> None:
        """Customers send what has failed under the same id, once: there is no trouble any more."""
        for aggregate in (ORDER, STOCK):
            for record in self.records(aggregate.replies_topic):
                reply = decode_reply(record.value or b"")
                if reply.status == "failed" and reply.command_id in self._sent:
                    self.app.writer().append([self._sent.pop(reply.command_id)])

    def records(self, topic: str) -> list[SourceRecord]:
        """All records of a topic, partition by partition."""
        found = []
        reader = self.app.reader()
        for place, end in self.app.log.end_offsets([TopicPartition(topic, n) for n in range(PARTITIONS)]).items():
            for batch in reader.fetch(place, 0, end) if end else ():
                found += [batch.record(row) for row in range(len(batch))]
        return found

    def rows(self, store: str) -> dict[str, Any]:
        """All rows of a store."""
        return {row.key: row.value for row in self.app.app.store(store).all()}

    def _epoch(self, after_ms: int, upto: dict[TopicPartition, int] | None = None, fail: float = 0.0) -> None:
        record = self.app.plan_epoch(upto, after_ms=after_ms)
        self.now_ms = record.wall_clock_ms
        bundles = list(self.app.plan.bundles)
        self.random.shuffle(bundles)
        for bundle in bundles:
            while not self._attempt(bundle.id, record, fail):
                self.failed_attempts += 1
            if self.random.random() < fail:
                self.app.run_bundle(bundle.id, record, [])  # a second attempt finds what the first has made
        self.app.mark_done(record)

    def _attempt(self, bundle: str, record: Any, fail: float) -> bool:
        """Run a bundle, perhaps to a step at which it fails; whether it came to its end."""
        steps = self.random.randrange(8) if self.random.random() < fail else -1

        def reached(name: str, bundle: str | None, epoch: int | None) -> None:
            nonlocal steps
            steps -= 1
            if steps == 0:
                raise FailpointError(name)

        failpoints.listener = reached
        try:
            self.app.run_bundle(bundle, record, [])
        except FailpointError:
            return False
        finally:
            failpoints.listener = None
        return True

    def _unread(self) -> bool:
        """Whether records have been written that no epoch has read."""
        record = self.app.plan_epoch(after_ms=1)
        for bundle in self.app.plan.bundles:
            self.app.run_bundle(bundle.id, record, [])
        self.app.mark_done(record)
        return any(start < end for ranges in record.ranges.values() for start, end in ranges.values())


@contextmanager
def shop_in_epochs(folder: Path, random: Random, *, apart: bool) -> Iterator[ShopInEpochs]:
    """The shop, closed at the end."""
    shop = ShopInEpochs(folder, random, apart=apart)
    try:
        yield shop
    finally:
        shop.app.close()
        for data in folder.rglob("data.mdb"):
            close_environment(data.parent)


def failing_now_and_then(aggregate: EventSourced[Any, Any, Any], random: Random) -> Any:
    """The decider of an aggregate, which raises on several commands in a row now and then.

    Not on what a reaction sends, since nothing repeats that.
    """
    decider, fails = aggregate.decider, False

    def decide(command: Any, state: Any) -> Any:
        nonlocal fails
        fails = random.random() < (0.9 if fails else 0.05)
        if fails and not isinstance(command, messages.Take):
            raise RuntimeError("it fails now")
        return decider.decide(command, state)

    return replace(decider, decide=decide)
