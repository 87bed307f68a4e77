"""The order in which Java's HashMap gives its entries, which functions of maps let through.

The table has the size that ksqlDB's reader of JSON gives it: the least power of two that is not too full.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

_MASK = 0xFFFFFFFF


def text_hash(text: str) -> int:
    """`String.hashCode` as an unsigned number; characters are units of UTF-16."""
    code = 0
    for unit in memoryview(text.encode("utf-16-le", "surrogatepass")).cast("H"):
        code = code * 31 + unit & _MASK
    return code


def hash_order(keys: Iterable[Any]) -> list[Any]:
    """Keys, which are all texts or all whole numbers, as a HashMap iterates them; others stay in their order."""
    ordered = list(keys)
    table = 1
    while len(ordered) > table * 3 // 4:
        table *= 2
    if all(type(key) is str for key in ordered):
        codes = {key: text_hash(key) for key in ordered}
    elif all(type(key) is int for key in ordered):
        codes = {key: (key ^ key >> 32) & _MASK if key >> 31 not in (0, -1) else key & _MASK for key in ordered}
    else:
        return ordered
    return sorted(ordered, key=lambda key: (codes[key] ^ codes[key] >> 16) & table - 1)
