"""Which sub-topology, and which clock, of the plan in use a program goes on with."""

from __future__ import annotations

import msgspec

from hayase.compiler.plan_shape import (
    GLOBAL,
    SINK,
    SOURCE,
    NodeShape,
    PlanShape,
    SubtopologyShape,
    generated_number,
    with_next_numbers,
)


class Matching(msgspec.Struct, frozen=True):
    """The ids that the parts of a program have on a checkpoint.

    Attributes:
        ids: the id that the builder gives → the one that the part has.
        problems: stores that were joined or split, in words; the ids say nothing then.
    """

    ids: dict[str, str]
    problems: tuple[str, ...] = ()


def match(old: PlanShape, new: PlanShape) -> Matching:
    """Give each part of a program its id.

    A part that has stores of the plan in use has the id of theirs. One without goes on as a part that reads the same
    topics and has as many tasks, if no other does. All others get numbers that no part ever had.

    Args:
        old: the plan in use.
        new: the program, by the ids that the builder gives.
    """
    ids: dict[str, str] = {}
    problems: list[str] = []
    for name, part in new.subtopologies.items():
        owners = _owners(old, part)
        if len(owners) > 1:
            problems.append(f"{_shown(owners)} would be in one sub-topology: their rows are divided among other tasks")
        elif owners:
            (owner,) = owners
            if owner.startswith(GLOBAL) != name.startswith(GLOBAL):
                tables = "a global table" if owner.startswith(GLOBAL) else "a table or aggregation"
                problems.append(f"{_shown(owners)} would not be of {tables} any more")
            elif owner in ids.values():
                problems.append(
                    f"the stores {', '.join(old.subtopologies[owner].stores)} would be in two sub-topologies"
                )
            else:
                ids[name] = owner
    _match_by_topics(old, new, ids)
    number, global_number = old.next_number, old.next_global
    for name in new.subtopologies:
        if name in ids:
            continue
        if name.startswith(GLOBAL):
            ids[name], global_number = f"{GLOBAL}{global_number}", global_number + 1
        else:
            ids[name], number = str(number), number + 1
    return Matching({name: ids[name] for name in new.subtopologies}, tuple(problems))


def following(old: PlanShape, new: PlanShape, number: int) -> PlanShape:
    """The shape of the next plan: the program's, with what the plans before have left behind.

    Args:
        old: the plan in use.
        new: the program, by the ids of its parts.
        number: of the plan; clocks are named by it.
    """
    parts = {
        name: _behind(old.subtopologies[name], part, number) if name in old.subtopologies else part
        for name, part in new.subtopologies.items()
    }
    return with_next_numbers(msgspec.structs.replace(new, subtopologies=parts), old)


def with_deletions(shape: PlanShape, before: PlanShape | None = None) -> PlanShape:
    """The shape, with rows of removed stores deleted: of all that are left, or of those that another shape deletes.

    Args:
        shape: what `following` gave.
        before: the plan in use, whose deletions a start with the same program goes on with.
    """

    def deleting(name: str, part: SubtopologyShape) -> SubtopologyShape:
        if before is None:
            return msgspec.structs.replace(part, deleted=part.left, left=())
        old = before.subtopologies.get(name)
        return part if old is None else msgspec.structs.replace(part, deleted=old.deleted)

    parts = {name: deleting(name, part) for name, part in shape.subtopologies.items()}
    return msgspec.structs.replace(shape, subtopologies=parts)


def without_deletions(shape: PlanShape) -> PlanShape:
    """The shape, with rows that it was to delete left where they are."""
    parts = {
        name: msgspec.structs.replace(part, left=(*part.left, *part.deleted), deleted=())
        for name, part in shape.subtopologies.items()
    }
    return msgspec.structs.replace(shape, subtopologies=parts)


def _owners(old: PlanShape, part: SubtopologyShape) -> dict[str, list[str]]:
    owners: dict[str, list[str]] = {}
    for store in part.stores:
        owner = old.subtopology_of(store)
        if owner is not None:
            owners.setdefault(owner, []).append(store)
    return owners


def _shown(owners: dict[str, list[str]]) -> str:
    named = [f"{', '.join(stores)} (sub-topology {owner})" for owner, stores in owners.items()]
    return f"the stores {' and '.join(named)}"


def _match_by_topics(old: PlanShape, new: PlanShape, ids: dict[str, str]) -> None:
    """Among the parts that no store has decided; the ones that have most topics in common first."""
    left = [name for name in new.subtopologies if name not in ids and not name.startswith(GLOBAL)]
    free = [name for name in old.subtopologies if name not in ids.values() and not name.startswith(GLOBAL)]
    common = []
    for name in left:
        for other in free:
            one, before = new.subtopologies[name], old.subtopologies[other]
            shared = len({*one.edges, *one.topics} & {*before.edges, *before.topics})
            if shared and 0 in (one.tasks, before.tasks, one.tasks - before.tasks):
                common.append((-shared, int(other), int(name)))
    for _, other_number, number in sorted(common):
        if str(number) not in ids and str(other_number) not in ids.values():
            ids[str(number)] = str(other_number)


def _behind(before: SubtopologyShape, part: SubtopologyShape, number: int) -> SubtopologyShape:
    timed = [name for name, node in before.nodes.items() if node.kind not in (SOURCE, SINK)]
    taken = {*map(before.clock, timed), *before.spent}
    clocks: dict[str, str] = {}
    for name, node in part.nodes.items():
        if node.kind in (SOURCE, SINK):
            continue
        same = _same_node(before, part, name, node)
        clock = before.clock(same) if same is not None else f"{name}@{number}" if name in taken else name
        if clock != name:
            clocks[name] = clock
    now = {clocks.get(name, name) for name in part.nodes}
    return msgspec.structs.replace(
        part,
        clocks=clocks,
        spent=tuple(sorted(taken - now)),
        left=tuple(sorted({*before.left, *before.stores} - {*part.stores})),
    )


def _same_node(before: SubtopologyShape, part: SubtopologyShape, name: str, node: NodeShape) -> str | None:
    """The node of the plan in use that this one is, whatever it is called; `None` if it is a new one."""
    if node.stores:
        others = _users(before, node)
        here = _users(part, node)
        return others[here.index(name)] if len(others) == len(here) else None
    other = before.nodes.get(name)
    if other is None or other.kind != node.kind or other.stores:
        return None
    named = generated_number(name) is None
    return name if named or (other.parents == node.parents and other.topics == node.topics) else None


def _users(part: SubtopologyShape, node: NodeShape) -> list[str]:
    """The nodes of one kind that use the same stores, in order."""
    return [name for name, each in part.nodes.items() if each.kind == node.kind and {*each.stores} == {*node.stores}]
