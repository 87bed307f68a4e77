"""Whether a program may go on with the state of the plan in use: what differs, and what stands in the way."""

from __future__ import annotations

import re
from difflib import SequenceMatcher

import msgspec

from hayase.compiler.plan_shape import (
    GLOBAL,
    SOURCE,
    NodeShape,
    PlanShape,
    SubtopologyShape,
    generated_number,
)
from hayase.compiler.window_text import duration_text

_COUNTER = re.compile(r"-\d{10}(?=-|$)")

Lineage = tuple[object, ...]
"""What a node makes, and of what, without names that the builder made up."""


class PlanDifference(msgspec.Struct, frozen=True):
    """What another program changes.

    Attributes:
        refused: why it cannot go on with the state, in words; empty if it can.
        names: names to give, so that it can.
        changes: what comes, goes and changes, in words.
        new_stores: that begin empty.
        removed_stores: that are gone; unless they are deleted, their rows are kept, but not read.
        deleted_stores: that are gone, now or by an earlier change, and whose rows are deleted.
        renewed_internal: internal topics that are gone, or have a name that the builder may have given to others: they
            must be empty.
    """

    refused: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    changes: tuple[str, ...] = ()
    new_stores: tuple[str, ...] = ()
    removed_stores: tuple[str, ...] = ()
    deleted_stores: tuple[str, ...] = ()
    renewed_internal: tuple[str, ...] = ()


def compare(old: PlanShape, new: PlanShape, problems: tuple[str, ...] = ()) -> PlanDifference:
    """What differs between the plan in use and the next one.

    Args:
        old: the plan in use.
        new: the next one, see `hayase.compiler.plan_matching.following`.
        problems: what matching found.
    """
    stores, others = _stores(old), _stores(new)
    refused = [*problems]
    if not problems:
        for name in old.subtopologies.keys() & new.subtopologies.keys():
            refused += _state_differs(name, old.subtopologies[name], new.subtopologies[name])
    renumbered, names = _renumbered(old, new)
    refused += renumbered
    topics = [topic for topic in old.internal if topic not in new.internal or _is_renumbered(old, new, topic)]
    return PlanDifference(
        refused=tuple(refused),
        names=tuple(names),
        changes=tuple(_changes(old, new)),
        new_stores=tuple(store for store in others if store not in stores),
        removed_stores=tuple(store for store in stores if store not in others),
        renewed_internal=tuple(topics),
    )


def _stores(shape: PlanShape) -> dict[str, str]:
    return {store: kind for part in shape.subtopologies.values() for store, kind in part.stores.items()}


def part_name(name: str) -> str:
    """What a part is called in messages."""
    return f"global table {name}" if name.startswith(GLOBAL) else f"sub-topology {name}"


def _state_differs(name: str, old: SubtopologyShape, new: SubtopologyShape) -> list[str]:
    found = [
        f"store {store} was {old.stores[store]}, would be {kind}"
        for store, kind in new.stores.items()
        if store in old.stores and old.stores[store] != kind
    ]
    found += [
        f"store {store} has rows of {old.windows[store]}, and would get rows of {new.windows[store]} among them: give "
        "the aggregation's store another name (Materialized.as_), which then begins empty"
        for store in windows_changed(old, new)
    ]
    found += [
        f"store {store} was removed from {part_name(name)} before, and its old rows are still there: give the new one "
        "another name, or first start the topology without it once more with --delete-removed-stores (in a program "
        "delete_removed_stores), which deletes them"
        for store in new.stores
        if store in old.left
    ]
    if (old.stores or old.left) and new.tasks != old.tasks:
        stores = ", ".join(old.stores or old.left)
        found.append(
            f"{part_name(name)}, which has the stores {stores}, had {old.tasks} tasks, would have {new.tasks}: rows "
            "are divided by them"
        )
    return found


def windows_changed(old: SubtopologyShape, new: SubtopologyShape) -> list[str]:
    """The stores whose windows are known to be others; the plan in use may not say what they were."""
    return [store for store, windows in new.windows.items() if old.windows.get(store, windows) != windows]


def graces_changed(old: SubtopologyShape, new: SubtopologyShape) -> list[str]:
    """The stores whose grace period is known to be another one."""
    return [store for store, grace_ms in new.graces_ms.items() if old.graces_ms.get(store, grace_ms) != grace_ms]


def joins_changed(old: SubtopologyShape, new: SubtopologyShape) -> list[str]:
    """The stores of joins of two streams whose windows are known to be others."""
    return [store for store, windows in new.joins.items() if old.joins.get(store, windows) != windows]


def _renumbered(old: PlanShape, new: PlanShape) -> tuple[list[str], list[str]]:
    """Stores whose generated names moved, and the names to give instead."""
    made_up = {store for part in old.subtopologies.values() for store in part.generated}
    given = {store for part in new.subtopologies.values() for store in part.generated}
    before, after = _stores(old), _stores(new)
    gone = [store for store in before if store in made_up and store not in after]
    come = [store for store in after if store in given and store not in before]
    refused = []
    if gone and come:
        refused.append(
            f"the builder has renumbered: store {', '.join(gone)} would be gone, and {', '.join(come)} begin empty"
        )
    moved = [store for store in after if store in given and store in before and not _is_the_same(old, new, store)]
    refused += [f"store {store} has a generated name, and would be that of other nodes than before" for store in moved]
    if not refused:
        return [], []
    return refused, _names_to_give(old, new, [store for store in before if store in made_up])


def _is_the_same(old: PlanShape, new: PlanShape, store: str) -> bool:
    """Whether a generated name means the same store: none was counted before it, or no other store is like it."""
    if not _is_renumbered(old, new, store):
        return True
    mine = store_lineage(old, store)
    alike = [other for other in _stores(old) if store_lineage(old, other) == mine]
    return alike == [store] and store_lineage(new, store) == mine


def _is_renumbered(old: PlanShape, new: PlanShape, name: str) -> bool:
    """Whether other nodes were counted before a generated name."""
    number = generated_number(name)
    return number is not None and _counted_before(old, number) != _counted_before(new, number)


def _counted_before(shape: PlanShape, number: int) -> dict[str, NodeShape]:
    counted = ((name, generated_number(name), node) for name, node in shape.nodes.items())
    return {name: node for name, own, node in counted if own is not None and own < number}


def _names_to_give(old: PlanShape, new: PlanShape, stores: list[str]) -> list[str]:
    """Which name each store is to be given: those of one lineage, and of one kind then, are paired in their order."""
    kinds, others = _stores(old), _stores(new)
    made_up = {store for part in new.subtopologies.values() for store in part.generated}
    free = [store for store in others if store in made_up]
    pairs: dict[str, str] = {}
    for alike in (_have_one_lineage, lambda *_: True):
        for store in stores:
            if store in pairs:
                continue
            for other in free:
                if kinds[store] == others[other] and alike(old, new, store, other):
                    pairs[store] = other
                    free.remove(other)
                    break
    return [f"{store!r} for the one that is {pairs[store]} now" for store in stores if store in pairs]


def _have_one_lineage(old: PlanShape, new: PlanShape, store: str, other: str) -> bool:
    return store_lineage(old, store) == store_lineage(new, other)


def store_lineage(shape: PlanShape, store: str) -> Lineage:
    """What fills a store, and of what."""
    nodes = shape.nodes
    writers: dict[str, list[str]] = {}
    for name, node in nodes.items():
        if node.kind != SOURCE:
            for topic in node.topics:
                writers.setdefault(topic, []).append(name)

    def lineage(name: str, seen: frozenset[str]) -> Lineage:
        node = nodes.get(name)
        if node is None or name in seen:
            return ()
        below = seen | {name}
        if node.kind == SOURCE:
            fed = [lineage(writer, below) for topic in node.topics for writer in writers.get(topic, ())]
            return (SOURCE, *fed) if fed else (SOURCE, *node.topics)
        return (node.kind, *(lineage(parent, below) for parent in node.parents))

    return tuple(lineage(name, frozenset()) for name, node in nodes.items() if store in node.stores)


def _changes(old: PlanShape, new: PlanShape) -> list[str]:
    found = []
    for name in sorted({*old.subtopologies, *new.subtopologies}, key=lambda each: (len(each), each)):
        before, after = old.subtopologies.get(name), new.subtopologies.get(name)
        if after is None and before is not None:
            found.append(f"{part_name(name)} ({', '.join(before.nodes)}) is gone")
        elif before is None and after is not None:
            found.append(f"{part_name(name)} ({', '.join(after.nodes)}) is new")
        elif before is not None and after is not None and (changes := _part_changes(before, after)):
            found.append(f"{part_name(name)} {', '.join(changes)}")
    return found


def _part_changes(before: SubtopologyShape, after: SubtopologyShape) -> list[str]:
    """Without nodes of which only the number differs that the builder gave them."""
    old, new = [*before.nodes], [*after.nodes]
    matcher = SequenceMatcher(None, [*map(_stem, old)], [*map(_stem, new)], autojunk=False)
    gone, come, other = [], [], []
    for kind, first, end, first_new, end_new in matcher.get_opcodes():
        if kind == "equal":
            pairs = zip(old[first:end], new[first_new:end_new], strict=True)
            other += [name for was, name in pairs if _content(before.nodes[was]) != _content(after.nodes[name])]
        else:
            gone += old[first:end]
            come += new[first_new:end_new]
    changes = [f"has no {name} any more" for name in gone] + [f"has a new {name}" for name in come]
    changes += [f"has another {name}" for name in other]
    changes += [f"has no store {store} any more" for store in before.stores if store not in after.stores]
    changes += [f"has a new store {store}" for store in after.stores if store not in before.stores]
    changes += [
        f"has {after.windows[store]} in store {store} (before: {before.windows[store]})"
        for store in windows_changed(before, after)
    ]
    changes += [
        f"has another grace in store {store}: "
        f"grace {duration_text(before.graces_ms[store])} -> {duration_text(after.graces_ms[store])}"
        for store in graces_changed(before, after)
    ]
    changes += [
        f"joins the records of store {store} from {after.joins[store]} (before: from {before.joins[store]})"
        for store in joins_changed(before, after)
    ]
    if before.tasks != after.tasks:
        changes.append(f"had {before.tasks} tasks, has {after.tasks}")
    return changes


def _stem(name: str) -> str:
    return _COUNTER.sub("-N", name)


def _content(node: NodeShape) -> object:
    return node.kind, [*map(_stem, node.stores)], [*map(_stem, node.topics)]
