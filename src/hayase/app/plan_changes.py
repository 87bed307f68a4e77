"""Differences between the plan of a checkpoint and that of a program, in words."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterator, Mapping

from hayase.core.errors import CheckpointError
from hayase.core.objects import JsonObject

_SHOWN_MAX = 8
_NUMBER = re.compile(r"-(\d{10})(?=-|$)")
"""The builder's counter in a generated name."""


def plan_changed(application_id: str, old: str, new: str) -> CheckpointError:
    """`PLAN_CHANGED`.

    Args:
        application_id: of the application.
        old: the plan in its checkpoint, as `Plan.to_json` writes it.
        new: that of the program.
    """
    changes = differences(json.loads(old), json.loads(new))
    more = f"; and {len(changes) - _SHOWN_MAX} more" if len(changes) > _SHOWN_MAX else ""
    return CheckpointError(
        "PLAN_CHANGED",
        f"the topology of {application_id!r} is not the one that its checkpoint was made with: "
        f"{'; '.join(changes[:_SHOWN_MAX])}{more}. Start the old topology (once this release has started it, most "
        "changes can be made in place: `hayase describe --against`); or start over, with its input read from the "
        f"beginning: `hayase app reset {application_id}`; or keep both: `-c application.id={application_id}-2`",
        application_id=application_id,
    )


def differences(old: JsonObject, new: JsonObject) -> list[str]:
    """One text for each sub-topology, topic and repartition that differs.

    Generated names end in a number that counts operators, so an operator more or less gives all later names other
    numbers: names that differ in that alone are one, which the last text says.
    """
    names = _renumbered(old, new)
    moved = {name: new_name for name, new_name in names.items() if new_name in _names(new)}
    changes = _all_changes(_with_names(old, names), new)
    if not changes:  # nothing but numbers: then these are what differs
        return _all_changes(old, new) or _others(old, new)
    if moved:
        before, after = next(iter(moved.items()))
        changes.append(
            f"for that, {len(moved)} generated {'name has' if len(moved) == 1 else 'names have'} another number, e.g. "
            f"{before} is {after} now; operators, stores and repartitions that have names of their own keep them"
        )
    return changes


def _all_changes(old: JsonObject, new: JsonObject) -> list[str]:
    changes = _subtopologies(old.get("units", {}), new.get("units", {}))
    named = {"topics": "source topic", "internal": "internal topic", "repartitions": "repartition"}
    for part, name in named.items():
        changes += _counts(name, old.get(part, {}), new.get(part, {}))
    return changes


def _renumbered(old: JsonObject, new: JsonObject) -> dict[str, str]:
    """The generated names of the old plan that have another number in the new one.

    The names of both, in the order of their numbers, are two sequences of kinds of operators; names at the places that
    these have in common belong together. An old name that is gone, and is now that of another node, says so.
    """
    before, after = _generated(old), _generated(new)
    kinds = [[_NUMBER.sub("-#", name) for name in names] for names in (before, after)]
    matcher = difflib.SequenceMatcher(None, kinds[0], kinds[1], autojunk=False)
    pairs = [
        pair
        for block in matcher.get_matching_blocks()
        for pair in zip(before[block.a : block.a + block.size], after[block.b : block.b + block.size], strict=True)
    ]
    renamed = {name: new_name for name, new_name in pairs if name != new_name}
    gone = {*before} - {name for name, _ in pairs}
    return renamed | {name: f"{name} (before)" for name in gone & {*renamed.values()}}


def _generated(plan: JsonObject) -> list[str]:
    """Generated names of a plan, in the order of their numbers."""
    numbered = {name: match.group(1) for name in _names(plan) if (match := _NUMBER.search(name))}
    return sorted(numbered, key=lambda name: (numbered[name], name))


def _names(plan: JsonObject) -> Iterator[str]:
    """Names of nodes and internal topics."""
    for subtopology in plan.get("units", {}).values():
        yield from subtopology.get("nodes", ())
    yield from plan.get("internal", {})
    yield from plan.get("repartitions", {})


def _with_names(plan: JsonObject, names: Mapping[str, str]) -> JsonObject:
    """The plan with other names of nodes and topics."""
    units = {
        number: {**subtopology, "nodes": [names.get(node, node) for node in subtopology.get("nodes", ())]}
        for number, subtopology in plan.get("units", {}).items()
    }
    topics = {
        part: {names.get(topic, topic): count for topic, count in plan.get(part, {}).items()}
        for part in ("internal", "repartitions")
    }
    return {**plan, "units": units, **topics}


def _subtopologies(old: JsonObject, new: JsonObject) -> list[str]:
    described = []
    before_of = _matched(old, new)
    for subtopology in sorted({*new, *({*old} - {*before_of.values()})}, key=lambda each: (len(each), each)):
        if subtopology in new and subtopology in before_of:
            before = before_of[subtopology]
            if changes := _changes(old[before], new[subtopology]):
                number = "" if before == subtopology else f" (before: {before})"
                described.append(f"{_shown(subtopology)}{number} {', '.join(changes)}")
        elif subtopology in new:
            described.append(f"{_shown(subtopology)} ({', '.join(new[subtopology].get('nodes', ()))}) is new")
        if subtopology in old and subtopology not in before_of.values():
            described.append(f"{_shown(subtopology)} ({', '.join(old[subtopology].get('nodes', ()))}) is gone")
    return described


def _matched(old: JsonObject, new: JsonObject) -> dict[str, str]:
    """The old sub-topology of each new one: that with the most nodes in common, of equal ones that of its number."""
    shared = {
        (len({*new[this].get("nodes", ())} & {*old[other].get("nodes", ())}), this == other, this, other)
        for this in new
        for other in old
        if this.startswith("global") == other.startswith("global")
    }
    matched: dict[str, str] = {}
    for count, same_number, this, other in sorted(shared, key=lambda pair: (-pair[0], not pair[1], *pair[2:])):
        if (count or same_number) and this not in matched and other not in matched.values():
            matched[this] = other
    return matched


def _shown(subtopology: str) -> str:
    return f"global table {subtopology}" if subtopology.startswith("global") else f"sub-topology {subtopology}"


def _changes(old: JsonObject, new: JsonObject) -> list[str]:
    gone = [node for node in old["nodes"] if node not in new["nodes"]]
    added = [node for node in new["nodes"] if node not in old["nodes"]]
    changes = [f"has no {node} any more" for node in gone] + [f"has a new {node}" for node in added]
    if not changes and old["nodes"] != new["nodes"]:
        changes.append(f"had its nodes in the order {', '.join(old['nodes'])}, has them as {', '.join(new['nodes'])}")
    counts = ("partitions", "level")
    return changes + [f"had {what} {old[what]}, has {new[what]}" for what in counts if old[what] != new[what]]


def _counts(name: str, old: Mapping[str, int], new: Mapping[str, int]) -> list[str]:
    changes = [f"{name} {each} is gone" for each in sorted({*old} - {*new})]
    changes += [f"{name} {each} is new" for each in sorted({*new} - {*old})]
    changes += [
        f"{name} {each} had {old[each]} partitions, has {new[each]}"
        for each in sorted({*old} & {*new})
        if old[each] != new[each]
    ]
    return changes


def _others(old: JsonObject, new: JsonObject) -> list[str]:
    """What follows from the rest, unless it is all that differs."""
    bundles, others = old.get("bundles", {}), new.get("bundles", {})
    changed = sorted(name for name in {*bundles, *others} if bundles.get(name) != others.get(name))
    return [f"tasks are bundled differently: {', '.join(changed)}"]
