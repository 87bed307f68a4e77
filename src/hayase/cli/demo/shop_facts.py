"""Reading the topics of events of the shop."""

from __future__ import annotations

import msgspec

from hayase.cli.demo.shop_proof import TOPICS, Fact, Ledger
from hayase.core.records import SourceRecord, TopicPartition
from hayase.log.protocol import Log
from hayase.patterns import cloud_events


class Facts:
    """Reads the topics of events as they grow, into a ledger.

    Attributes:
        ledger: of all that was read.
        correlations: of each order, by which it is traced.
    """

    def __init__(self, log: Log) -> None:
        self._log = log
        infos = log.describe(TOPICS)
        self._positions = {TopicPartition(name, n): 0 for name, info in infos.items() for n in range(info.partitions)}
        self.ledger = Ledger()
        self.correlations: dict[str, str] = {}

    def read(self) -> int:
        """Read what has come since the last time; how many events it is."""
        count = 0
        reader = self._log.reader()
        try:
            for partition, end in self._log.end_offsets(list(self._positions)).items():
                start, self._positions[partition] = self._positions[partition], end
                for batch in reader.fetch(partition, start, end):
                    self.ledger.add(self._fact(batch.record(row)) for row in range(len(batch)))
                    count += len(batch)
        finally:
            reader.close()
        return count

    def _fact(self, record: SourceRecord) -> Fact:
        attributes = cloud_events.from_headers(record.headers)
        key, kind = (record.key or b"").decode(), attributes[cloud_events.TYPE]
        if kind == "Placed":
            self.correlations[key] = attributes[cloud_events.CORRELATION]
        return Fact(record.topic, key, kind, msgspec.json.decode(record.value or b"{}"))
