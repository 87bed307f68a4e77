"""Replays golden cases: `python tests/golden/run.py [DIR] [--engine driver|spark] [--family F] [--form rows|auto]`.

In the test driver it compares everything that Kafka Streams recorded: outputs with their order, stores, side effects,
counts of dropped records. On Spark many cases share an application, see `spark_engine`. Cases that need what Hayase
does not have yet are skipped.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from fnmatch import fnmatch
from functools import cache
from pathlib import Path
from typing import Any

if not __package__:  # run by its path: `python tests/golden/run.py`
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.golden.arguments import plain, serde_of
from tests.golden.build import build
from tests.golden.cases import DATA, Case, Unsupported
from tests.golden.processors import version_of

from hayase.core.errors import HayaseError
from hayase.core.metrics import DROPPED_RECORDS
from hayase.state.stores.values import ValueAndTimestamp
from hayase.testing import TopologyTestDriver
from hayase.testing.topics import RawRecord

DEVIATIONS = Path(__file__).parent / "deviations.toml"
_SHARE_AN_APPLICATION = 60
HANDLERS = ("deserialization", "processing", "production")


@dataclass(frozen=True)
class Difference:
    """What one case did differently."""

    what: str
    expected: Any
    found: Any

    def __str__(self) -> str:
        return (
            f"{self.what}\n    expected {json.dumps(self.expected)}\n    found    {json.dumps(self.found, default=str)}"
        )


def load(folder: Path, family: str | None = None) -> Iterator[Case]:
    """The cases of a folder."""
    for path in sorted(folder.glob("*.json")):
        if family is None or path.stem == family:
            yield from json.loads(path.read_text("utf-8"))


@dataclass(frozen=True)
class Deviation:
    """Cases that come out differently on purpose.

    Attributes:
        cases: patterns of their names.
        reason: why.
        alike: patterns of recorded cases among them that come out as in Kafka Streams, since their input does not run
            into it.
    """

    cases: tuple[str, ...]
    reason: str
    alike: tuple[str, ...] = ()


@cache
def deviations() -> tuple[Deviation, ...]:
    """All that are listed."""
    entries = tomllib.loads(DEVIATIONS.read_text("utf-8"))["deviation"]
    return tuple(Deviation(tuple(one["cases"]), one["reason"], tuple(one.get("alike", ()))) for one in entries)


@cache
def recorded() -> frozenset[str]:
    """The names of the cases in this repository."""
    return frozenset(case["name"] for case in load(DATA))


def deviation(case: Case) -> Deviation | None:
    """Why a case comes out differently on purpose; `None` if it must come out as in Kafka Streams."""
    for entry in deviations():
        if any(fnmatch(case["name"], pattern) for pattern in entry.cases):
            return None if any(fnmatch(case["name"], alike) for alike in entry.alike) else entry
    return None


def judged(case: Case, differences: list[Difference]) -> list[Difference]:
    """What is wrong with a replayed case.

    Of a listed deviation: that it does not deviate. Only inputs that are not recorded here may or may not run into it.
    """
    listed = deviation(case)
    if listed is None:
        return differences
    if differences or case["name"] not in recorded():
        return []
    return [Difference("the case is a listed deviation and does not deviate", listed.reason, None)]


def run_case(case: Case, form: str = "rows") -> list[Difference]:
    """Replay a case; the differences found.

    Raises:
        Unsupported: the case needs something that is not there yet.
    """
    expected = case["expected"]
    try:
        built = build(case)
    except HayaseError as error:
        return compare("error at", (expected.get("error") or {}).get("at"), -1, str(error))
    clock = case["config"].get("initial_wall_clock_ms", 0)
    with TopologyTestDriver(built.topology, settings_of(case, form), clock) as driver:
        outputs, failed_at, error = _pipe_all(case, driver)
        differences = compare("error at", (expected.get("error") or {}).get("at"), failed_at, error)
        differences += _compare_outputs(expected["outputs"], outputs, ordered="order_undefined" not in case["tags"])
        if "dropped_records" in expected and failed_at is None:
            differences += compare(
                "dropped records", expected["dropped_records"], driver.metrics.total(DROPPED_RECORDS)
            )
        if "queries" in expected and failed_at is None:
            found_now = [_query(driver, **query) for query in case["queries"]]
            differences += compare("queries", expected["queries"], found_now)
        for name, store in expected.get("stores", {}).items():
            if failed_at is None:
                differences += compare(f"store {name}", *entries_of(store, _entries(driver, name)))
    effects = [row for row in expected.get("side_effects", []) if row.get("key") is not None or "node" in row]
    if effects and failed_at is None:
        wanted_effects = [[row.get("node", row.get("id")), row.get("key"), row.get("value")] for row in effects]
        differences += compare("side effects", wanted_effects, [list(row) for row in built.side_effects])
    return differences


def settings_of(case: Case, form: str) -> dict[str, Any]:
    """Settings of the application of a case."""
    config, settings = case["config"], {"statestore.cache.max.bytes": 0, "processing.form": form}
    settings["application.id"] = "app"  # that of the recordings
    for stage in HANDLERS:
        if f"{stage}_handler" in config:
            settings[f"{stage}.exception.handler"] = "log_and_continue"
    if "dlq_topic" in config:
        settings["errors.dead.letter.queue.topic.name"] = config["dlq_topic"]
    return settings


def _query(driver: TopologyTestDriver, store: str, fn: str, args: list[Any]) -> Any:
    assert fn in ("store_get", "versioned_get")
    return version_of(driver.store(store).get(*args))


def compare(what: str, expected: Any, found: Any, note: str = "") -> list[Difference]:
    """A difference, if they differ."""
    return [] if expected == found else [Difference(f"{what} {note}".strip(), expected, found)]


def serdes_of(case: Case) -> tuple[dict[str, Any], dict[str | None, Any]]:
    """Serdes of the topics that the case reads, and of those that it writes (`None`: those that its records choose)."""
    sources = {}
    for node in case["topology"]:
        if node["op"] in ("stream", "table", "global_table", "papi_source"):
            args = node["args"]
            topics = args.get("topics") or [args.get("topic")]
            if "pattern" in args:
                topics = {item["topic"] for item in case["inputs"] if re.fullmatch(args["pattern"], item["topic"])}
            for topic in topics:
                sources[topic] = (serde_of(args["key"]), serde_of(args["value"]))
    sinks = {}
    for node in case["topology"]:
        if node["op"] in ("to", "papi_sink"):  # without a topic: of records that go to no topic of another sink
            sinks[node["args"].get("topic")] = (serde_of(node["args"]["key"]), serde_of(node["args"]["value"]))
    return sources, sinks


def _pipe_all(case: Case, driver: TopologyTestDriver) -> tuple[list[Any], int | None, str]:
    sources, sinks = serdes_of(case)
    outputs: list[Any] = []
    for at, item in enumerate(case["inputs"]):
        error = None
        if "advance_wall_clock_ms" in item:
            driver.advance_wall_clock_time(timedelta(milliseconds=item["advance_wall_clock_ms"]))
        else:
            try:
                driver.pipe_batch(RawRecord(*encoded(one, sources)) for one in item.get("batch", [item]))
            except HayaseError as failed:
                error = str(failed)
        outputs.extend({"at": at, **record} for record in _drain(driver, sinks))
        if error is not None:
            return outputs, at, error
    return outputs, None, ""


def encoded(
    item: Any, sources: Any
) -> tuple[str, bytes | None, bytes | None, int, tuple[tuple[str, bytes | None], ...]]:
    """Topic, key, value, timestamp and headers of an input."""
    key_serde, value_serde = sources[item["topic"]]
    value = bytes.fromhex(item["value_hex"]) if "value_hex" in item else value_serde.serialize(item.get("value"))
    headers = tuple((name, None if text is None else text.encode()) for name, text in item.get("headers", []))
    return item["topic"], key_serde.serialize(item.get("key")), value, item["timestamp"], headers


def _drain(driver: TopologyTestDriver, sinks: Any) -> Iterator[Any]:
    for topic in driver.produced_topic_names():
        queue = driver.output_queue(topic)
        while queue:
            record = queue.popleft()
            if not topic.endswith(("-repartition", "-topic")):
                serdes = sinks.get(topic) or sinks.get(None)
                yield read_record(topic, record.key, record.value, record.timestamp_ms, record.headers, serdes)


def read_record(
    topic: str, key: bytes | None, value: bytes | None, timestamp_ms: int, headers: Any, serdes: Any
) -> dict[str, Any]:
    """An output as the cases write it."""
    found: dict[str, Any] = {"topic": topic}
    if serdes is None:
        found["key_hex"] = key.hex() if key is not None else None
        found["value_hex"] = value.hex() if value is not None else None
    else:
        found["key"] = plain(serdes[0].deserialize(key))
        found["value"] = serdes[1].deserialize(value)
    found["timestamp"] = timestamp_ms
    if headers:
        found["headers"] = [[name, None if data is None else data.decode()] for name, data in headers]
    return found


def comparable(record: Any) -> Any:
    """A record without what can only be Java's own: class, message and trace of the error."""
    headers = [
        [
            name,
            ""
            if name.startswith("__streams.errors.") and name.split(".")[-1] in ("exception", "message", "stacktrace")
            else text,
        ]
        for name, text in record.get("headers", [])
    ]
    return {**{name: value for name, value in record.items() if name != "headers"}, "headers": headers}


def _compare_outputs(expected: list[Any], found: list[Any], *, ordered: bool) -> list[Difference]:
    """In the recorded order; between topics, outputs of one input are compared topic by topic."""
    wanted = sorted((comparable(r) for r in expected), key=lambda r: (r["at"], r["topic"]))
    actual = sorted((comparable(r) for r in found), key=lambda r: (r["at"], r["topic"]))
    if not ordered:
        wanted, actual = (sorted(records, key=lambda r: json.dumps(r, sort_keys=True)) for records in (wanted, actual))
    for position in range(max(len(wanted), len(actual))):
        one = wanted[position] if position < len(wanted) else None
        other = actual[position] if position < len(actual) else None
        if one != other:
            return [Difference(f"output {position} of {len(wanted)} (found {len(actual)})", one, other)]
    return []


def _entries(driver: TopologyTestDriver, name: str) -> Iterator[Any]:
    for key, value in driver.store(name).all():
        if isinstance(value, ValueAndTimestamp):
            yield {"key": key, "value": value.value, "timestamp": value.timestamp_ms}
        else:
            yield {"key": key, "value": value}


def entries_of(store: Any, entries: Iterable[Any]) -> tuple[list[str], list[str]]:
    """What should be in a store and what is, in a form to compare."""
    timed = store["kind"].startswith("timestamped")
    found = [
        {name: plain(each) if name == "key" else each for name, each in entry.items() if timed or name != "timestamp"}
        for entry in entries
    ]
    wanted_rows, found_rows = (
        [json.dumps(each, sort_keys=True) for each in rows] for rows in (store["entries"], found)
    )
    return sorted(wanted_rows), sorted(found_rows)


@dataclass
class Tally:
    """What came of the cases so far; `deviating` are among the skipped."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0
    deviating: int = 0

    def take(self, case: Case, differences: list[Difference]) -> None:
        """Count a case, and print what is wrong with it."""
        wrong = judged(case, differences)
        if wrong:
            self.failed += 1
            print(f"{case['name']}: {case['about']}")
            for difference in wrong:
                print(f"  {difference}")
        elif differences:
            self.skipped += 1
            self.deviating += 1
        else:
            self.passed += 1


def _with_driver(cases: list[Case], form: str, tally: Tally) -> None:
    for case in cases:
        try:
            differences = run_case(case, form)
        except Unsupported:
            tally.skipped += 1
            continue
        tally.take(case, differences)


def _with_spark(cases: list[Case], form: str, tally: Tally) -> None:
    from tests.golden.spark_engine import alone, groups, run_alone, run_together

    by_name = {case["name"]: case for case in cases}
    tally.skipped += len(cases)
    for group in groups(cases, _SHARE_AN_APPLICATION):
        tally.skipped -= len(group)
        for name, differences in run_together(group, form).items():
            tally.take(by_name[name], differences)
    for case in filter(alone, cases):
        try:
            tally.take(case, run_alone(case, form))
        except Unsupported:
            continue
        tally.skipped -= 1


def main() -> None:
    """Run and print; the exit code is 1 if a case failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=DATA)
    parser.add_argument("--family")
    parser.add_argument("--form", choices=["rows", "auto"], default="rows")
    parser.add_argument("--engine", choices=["driver", "spark"], default="driver")
    given = parser.parse_args()
    tally = Tally()
    cases = list(load(given.folder, given.family))
    (_with_spark if given.engine == "spark" else _with_driver)(cases, given.form, tally)
    print(f"{tally.deviating} of those that are skipped deviate as listed; the others need what is not there yet")
    print(f"{tally.passed} passed, {tally.failed} failed, {tally.skipped} skipped")
    sys.exit(1 if tally.failed else 0)


if __name__ == "__main__":
    main()
