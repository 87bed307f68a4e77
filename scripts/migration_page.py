"""Write docs/migration.md from docs/migration.toml: `python scripts/migration_page.py`."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

DOCS = Path(__file__).resolve().parent.parent / "docs"
PAGE = DOCS / "migration.md"
TABLE = DOCS / "migration.toml"

_TITLES = {
    "StreamsBuilder": "StreamsBuilder",
    "KStream": "KStream",
    "KTable": "KTable and GlobalKTable",
    "Grouped": "Grouped streams and tables",
    "Windows": "Windows, emission and suppression",
    "Options": "Option objects",
    "ProcessorAPI": "Topology and Processor API",
    "Application": "KafkaStreams",
    "Queries": "Interactive queries v2",
    "Serdes": "Serdes",
    "Testing": "Test driver",
}
_HEAD = """# From Kafka Streams (Java) to Hayase

Made by `scripts/migration_page.py` from [migration.toml](migration.toml); a test checks that what the table names
exists.

What is the same: names of operators, stores and internal topics, so `describe()` reads the same; window borders,
timestamps and order of results, checked against traces of Kafka Streams 4.3; keys of settings
([configuration.md](configuration.md)).

What is different:

* **Epochs.** Input is processed in epochs, planned ranges of offsets, each of which is committed whole. There is no
  commit interval within which half of an update can be seen: with exactly-once outputs, state and position appear
  together.
* **Repartitions are shuffles** inside an epoch, not topics. `repartition()` makes a topic.
* **Changelogs are files** of the checkpoint, not topics; a state is restored from them, or taken over from a follower.
* **Another topology** on the same state: each store stays if its name, kind and key do, whatever sub-topology the
  builder counts it in. Kafka Streams starts with any topology, and state is lost or misread where numbers and generated
  names have moved; here that is refused, with the names to give
  ([changing a topology](operations.md#changing-a-topology)).
* **A poison record** stops the application, as in Kafka Streams. The corrected program goes on with that record, also
  if its topology has changed; nothing is skipped ([how](operations.md#changing-a-topology)).
* **Functions** are callables or Polars expressions. Expressions and built-in aggregates run in columns, which is much
  faster.
* **Options** are keyword arguments or the same option objects; `Duration` is `timedelta`, `Instant` an aware
  `datetime`.
* **Names.** `filterNot` is `filter_not`; where Python has the word itself there is a trailing underscore: `as_`,
  `with_`.
* **Named topologies** (Kafka Streams' `KafkaStreamsNamedTopologyWrapper`, ksqlDB's shared runtimes) are public:
  `StreamsRuntime` runs many topologies in one Spark query, which are added, replaced, paused and removed while the
  others go on; an application's state moves there and back
  ([many topologies](operations.md#many-topologies-in-one-spark-application)).
* **Threads.** `num.stream.threads` is the number of Spark's cores that work; a program is one application, not one of
  several instances.
* **Values** of JSON are dicts, dataclasses, `msgspec.Struct` or Pydantic models. A missing value is `None`.
* **Types.** `KStream<K, V>` is `KStream[K, V]`, for type checkers; what an expression gives is `Any`.

"""


class Row(NamedTuple):
    """One line: Java's methods, ours (empty: none), a remark."""

    java: str
    ours: str
    remark: str


def groups() -> Iterator[tuple[str, list[Row]]]:
    """The table's groups with their rows."""
    for group, rows in tomllib.loads(TABLE.read_text("utf-8")).items():
        yield group, [Row(java, *((found, "") if isinstance(found, str) else found)) for java, found in rows.items()]


def page() -> str:
    """The text of the page."""
    parts = [_HEAD]
    for group, rows in groups():
        parts.append(f"## {_TITLES[group]}\n\n| Kafka Streams | Hayase | |\n|---|---|---|\n")
        for java, ours, remark in rows:
            shown = f"`{ours}`" if ours else "none"
            parts.append(f"| `{java.replace('|', chr(92) + '|')}` | {shown} | {remark} |\n")
        parts.append("\n")
    return "".join(parts).rstrip() + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
