"""What must be true of output topics and stores after any number of crashes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tests.crash import input as given
from tests.crash.scene import Scene

Sequences = dict[str, list[tuple[Any, int]]]
"""By key, in order: values with their times."""
Rows = dict[str, tuple[Any, int | None]]
DETERMINISTIC = ("enriched", "totals", "regions")
DETERMINISTIC_STORES = ("totals", "regions")


@dataclass(frozen=True, slots=True)
class Undisturbed:
    """What a run without any crash made of the input, where that does not depend on chance."""

    outputs: Mapping[str, Sequences]
    stores: Mapping[str, Rows]

    @classmethod
    def of(cls, scene: Scene) -> Undisturbed:
        """From a scene that ran to its end."""
        outputs = {topic: by_key(scene.output(topic)) for topic in DETERMINISTIC}
        return cls(outputs, {name: scene.store(name) for name in DETERMINISTIC_STORES})


def by_key(partitions: Iterable[Iterable[tuple[str, Any, int]]]) -> Sequences:
    """The sequence of every key; a key is in one partition only."""
    found: Sequences = {}
    for partition in partitions:
        here: Sequences = {}
        for key, value, time_ms in partition:
            here.setdefault(key, []).append((value, time_ms))
        assert not here.keys() & found.keys(), "a key is in two partitions"
        found.update(here)
    return found


def expect_exactly_once(scene: Scene, undisturbed: Undisturbed) -> None:
    """Topics and stores equal those of the undisturbed run; what is random agrees with itself."""
    for topic, expected in undisturbed.outputs.items():
        _expect_same(f"topic {topic}", by_key(scene.output(topic)), expected)
    for name, rows in undisturbed.stores.items():
        assert scene.store(name) == rows, f"store {name}"
    noisy = by_key(scene.output("noisy"))
    expect_event_ids(noisy)
    expect_running_sums(noisy, by_key(scene.output("noise")), scene.store("noise"))
    expect_group_sums(noisy, by_key(scene.output("groups")), scene.store("groups"))


def expect_counts(scene: Scene) -> None:
    """Each neighbour wrote each count of a key once, in order."""
    for topic in given.COUNTED:
        records: dict[str, int] = {}
        for record in given.records():
            if record.topic == topic:
                records[record.key] = records.get(record.key, 0) + 1
        counts = {
            key: [value["n"] for value, _ in values] for key, values in by_key(scene.output(f"counted-{topic}")).items()
        }
        assert counts == {key: list(range(1, n + 1)) for key, n in records.items()}, f"topic counted-{topic}"


def expect_shapes(scene: Scene) -> None:
    """The other neighbours copied each event once, and wrote each count of a window once, all in order."""
    copies: Sequences = {}
    windows: dict[str, int] = {}
    for record in given.records():
        if record.topic == "events":
            copies.setdefault(record.key, []).append(({"id": record.value["id"]}, record.timestamp_ms))
        elif record.topic == "orders":
            window = f"{record.key}@{record.timestamp_ms // given.WINDOW_MS * given.WINDOW_MS}"
            windows[window] = windows.get(window, 0) + 1
    _expect_same("topic copied", by_key(scene.output("copied")), copies)
    counts = {key: [value["n"] for value, _ in values] for key, values in by_key(scene.output("windowed")).items()}
    assert counts == {key: list(range(1, n + 1)) for key, n in windows.items()}, "topic windowed"


def expect_drained(scene: Scene) -> None:
    """Each order counts once in its group, whichever way it came."""
    groups: dict[str, set[object]] = {}
    for record in given.records():
        if record.topic == "orders":
            number = record.value["id"]
            assert isinstance(number, int)
            groups.setdefault(f"g{number % given.DRAINED_GROUPS}", set()).add(number)
    drained = by_key(scene.output("drained"))
    assert drained.keys() == groups.keys()
    for key, values in drained.items():
        assert [value["n"] for value, _ in values] == list(range(1, len(groups[key]) + 1)), f"group {key}"
        assert {value["id"] for value, _ in values} == groups[key], f"group {key}"


def expect_event_ids(noisy: Sequences) -> None:
    """Each input record came out once, in the order of its key, with its own time."""
    expected: Sequences = {}
    for record in given.records():
        if record.topic == "events":
            expected.setdefault(record.key, []).append((record.value["id"], record.timestamp_ms))
    found = {key: [(value["id"], time_ms) for value, time_ms in values] for key, values in noisy.items()}
    _expect_same("topic noisy", found, expected)


def expect_running_sums(noisy: Sequences, sums: Sequences, store: Rows) -> None:
    """The aggregates that were written and the ones that were kept are those of the random values that were written."""
    expected: Sequences = {}
    for key, values in noisy.items():
        total = 0
        for number, (value, time_ms) in enumerate(values, 1):
            total += value["nonce"]
            expected.setdefault(key, []).append(({"n": number, "sum": total, "tag": value["tag"]}, time_ms))
    _expect_same("topic noise", sums, expected)
    assert store == {key: values[-1] for key, values in expected.items()}, "store noise"


def expect_group_sums(noisy: Sequences, sums: Sequences, store: Rows) -> None:
    """Every random value that was written went to the group it chose, once, in some order of the merged input."""
    nonces = {value["tag"]: value["nonce"] for values in noisy.values() for value, _ in values}
    seen: set[str] = set()
    for key, values in sums.items():
        before = 0
        for number, (value, _) in enumerate(values, 1):
            nonce = nonces[value["tag"]]
            assert f"g{nonce % 5}" == key, f"group {key}: {value}"
            assert value["tag"] not in seen, f"group {key}: a record counts twice: {value}"
            assert (value["n"], value["sum"]) == (number, before + nonce), f"group {key}: {value}"
            seen.add(value["tag"])
            before = value["sum"]
        times = [time_ms for _, time_ms in values]
        assert times == sorted(times), f"group {key}"
    assert len(seen) == len(nonces)
    assert store == {key: values[-1] for key, values in sums.items()}, "store groups"


def _expect_same(what: str, found: Sequences, expected: Sequences) -> None:
    assert found.keys() == expected.keys(), what
    for key, values in expected.items():
        for position, (mine, theirs) in enumerate(zip(found[key], values, strict=False)):
            assert mine == theirs, f"{what}, key {key}, record {position}: {mine}, undisturbed {theirs}"
        assert found[key] == values, (
            f"{what}, key {key}: {len(found[key])} records, undisturbed {len(values)}: {found[key][len(values) - 2 :]}"
        )
