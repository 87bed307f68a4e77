"""The check that the pages of an LMDB file are what LMDB takes them for, before it looks at them.

LMDB 0.9 trusts its file: a page of a tree that is no page of a tree ends the process by an assertion, or worse.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import lmdb
import numpy as np

from hayase.storage.lmdb_env import read_transaction
from hayase.storage.lmdb_pages import (
    METAS,
    Meta,
    Numbers,
    PagesDamaged,
    PagesFile,
    Tree,
    damage_where_it_leads_nowhere,
)

_LEAVES_MAX = 1 << 16
"""Leaves that are looked at: 256 MB of them. Of larger files the pages above the leaves are."""
_TRIES = 10
_LOOKS = 3


def check_trees(env: lmdb.Environment) -> None:
    """Check the pages above the leaves of all trees of an environment, and the leaves of one that is not large.

    What the pages hold is not compared with anything. While others write, as of a moment: a read transaction keeps the
    pages of that moment. Meta pages are read without a lock, so what seems to be wrong is looked at again.

    Raises:
        PagesDamaged: a page is not what the page above it says.
    """
    for _ in range(_LOOKS - 1):
        with suppress(PagesDamaged):
            return _check(env)
    return _check(env)


def _check(env: lmdb.Environment) -> None:
    with read_transaction(env) as txn:
        pages = PagesFile(Path(env.path(), "data.mdb"))
        meta = _meta_of(pages, txn.id())
        if meta is None:  # others commit all the time: they have found it in order
            return
        with damage_where_it_leads_nowhere():
            free, main = meta.trees
            budget = _check_tree(pages, free, meta.last_page, _LEAVES_MAX)
            for tree in pages.subtrees(_leaves(pages, main, meta.last_page)):
                budget = _check_tree(pages, tree, meta.last_page, budget)


def _meta_of(pages: PagesFile, txn: int) -> Meta | None:
    for _ in range(_TRIES):
        for meta in pages.metas():
            if meta.txn == txn:
                return meta
    return None


def _leaves(pages: PagesFile, tree: Tree, last: int) -> Numbers:
    """The leaves of the tree of named databases, which has a few rows."""
    if not tree.depth:
        return np.zeros(0, np.int64)
    level = np.array([tree.root], np.int64)
    for height in range(tree.depth, 0, -1):
        _check_level(pages, level, last, leaves=height == 1)
        if height > 1:
            level = pages.children(level)
    return level


def _check_tree(pages: PagesFile, tree: Tree, last: int, leaves_max: int) -> int:
    """Check a tree; how many leaves may still be looked at."""
    if not tree.depth:
        return leaves_max
    level = np.array([tree.root], np.int64)
    for _ in range(tree.depth - 1):
        _check_level(pages, level, last, leaves=False)
        level = pages.children(level)
    looked_at = level[:leaves_max]
    _check_level(pages, looked_at, last, leaves=True)
    return leaves_max - len(looked_at)


def _check_level(pages: PagesFile, level: Numbers, last: int, *, leaves: bool) -> None:
    if len(level) and not (level.min() >= METAS and level.max() <= last):
        raise PagesDamaged("it refers to pages that it does not have")
    wrong = pages.wrong_headers(level, leaves=leaves)
    if len(wrong):
        raise PagesDamaged(f"page {wrong[0]} is no page of a tree ({len(wrong)} of {len(level)} that were looked at)")
