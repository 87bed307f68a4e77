"""Differences between the plan of a checkpoint and that of a program, in words."""

from __future__ import annotations

import json
from collections.abc import Mapping

from hayase.core.errors import CheckpointError
from hayase.core.objects import JsonObject

_SHOWN_MAX = 8


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
    """One text for each sub-topology, topic and repartition that differs."""
    changes = _subtopologies(old.get("units", {}), new.get("units", {}))
    named = {"topics": "source topic", "internal": "internal topic", "repartitions": "repartition"}
    for part, name in named.items():
        changes += _counts(name, old.get(part, {}), new.get(part, {}))
    return changes or _others(old, new)


def _subtopologies(old: JsonObject, new: JsonObject) -> list[str]:
    described = []
    for subtopology in sorted({*old, *new}, key=lambda each: (len(each), each)):
        name = f"global table {subtopology}" if subtopology.startswith("global") else f"sub-topology {subtopology}"
        if subtopology not in new:
            described.append(f"{name} ({', '.join(old[subtopology].get('nodes', ()))}) is gone")
        elif subtopology not in old:
            described.append(f"{name} ({', '.join(new[subtopology].get('nodes', ()))}) is new")
        elif changes := _changes(old[subtopology], new[subtopology]):
            described.append(f"{name} {', '.join(changes)}")
    return described


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
