"""Names of nodes, stores and internal topics, made as Kafka Streams makes them."""

from __future__ import annotations

import re

from hayase.core.errors import TopologyError

_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")


class NameCounter:
    """Generated names: a prefix and a counter of ten digits, one counter per topology.

    Example:
        >>> names = NameCounter()
        >>> names.next("KSTREAM-FILTER-"), names.next("KSTREAM-MAP-")
        ('KSTREAM-FILTER-0000000000', 'KSTREAM-MAP-0000000001')
    """

    def __init__(self) -> None:
        self._next = 0
        self._uncounted_before = 0
        self.before: dict[str, str] = {}
        """Generated names → those of earlier releases, where these differ (`hayase.topology.earlier`)."""
        self.generated: set[str] = set()
        """All names that were made up here."""

    def next(self, prefix: str, *, before: str | None = None) -> str:
        """The next generated name; `before` is the prefix that earlier releases gave it."""
        name = f"{prefix}{self._next:010d}"
        earlier = f"{before or prefix}{self._next - self._uncounted_before:010d}"
        if earlier != name:
            self.before[name] = earlier
        self._next += 1
        self.generated.add(name)
        return name

    def uncounted_before(self, names: int) -> None:
        """The last names were not counted by earlier releases."""
        self._uncounted_before += names

    def name_or_next(self, given: str | None, prefix: str) -> str:
        """`given` after a check, else the next generated name.

        The counter moves in both cases, as in Kafka Streams: naming a node does not rename those after it.
        """
        generated = self.next(prefix)
        return generated if given is None else check_name(given)

    def suffixed_or_next(self, given: str | None, suffix: str, prefix: str) -> str:
        """`given` with a suffix, for one of several nodes of an operation, else the next generated name."""
        return self.name_or_next(None if given is None else given + suffix, prefix)


def check_name(name: str) -> str:
    """The name, if it can be one of a node, store or topic.

    Raises:
        TopologyError: empty, longer than 249 characters, `.` or `..`, or characters other than ASCII letters, digits,
            `.`, `_`, `-`.
    """
    if not name or len(name) > 249 or name in (".", "..") or not _LEGAL.fullmatch(name):
        raise TopologyError(
            "INVALID_NAME",
            f"{name!r} cannot be a name: use 1 to 249 ASCII letters, digits, '.', '_' or '-' (and not '.' or '..')",
        )
    return name
