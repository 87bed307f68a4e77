"""Epochs that another program does again: their deltas do not count.

Blobs in `redo/`, which are created once and never deleted:

* `<epoch>-<closure>`: the epoch is *closed*, so no attempt of it goes on, until it is decided about.
* `<epoch>-<closure>.decision`: whether it is redone, or counts. Closures are numbered from 0; there is a next one only
  where the one before ended with *it counts*.

See docs/decisions/20261125-plans-that-change.md ("An open epoch that its own program cannot finish").
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from hayase.core.errors import StateError
from hayase.storage.blobs import BlobStore
from hayase.storage.checksum import with_checksum, without_checksum

REDO_FOLDER = "redo/"
_NAME = re.compile(rf"({REDO_FOLDER}([0-9]{{20,}})-[0-9]{{6,}})(\.decision)?")
"""Blobs of other names are not Hayase's."""
_REDONE, _COUNTS = b"redone", b"counts"


class RedoneEpochs:
    """What `redo/` says. Looks again only for later epochs than it was asked for, or where a decision is due.

    So ask for epochs that are done, or of which there is a delta: without a closure before it, that one counts.

    Args:
        blobs: the checkpoint.
    """

    def __init__(self, blobs: BlobStore) -> None:
        self._blobs = blobs
        self._listed_to = -1
        self._redone: frozenset[int] = frozenset()

    def __contains__(self, epoch: int) -> bool:
        return not self.without([epoch])

    def without(self, epochs: Sequence[int]) -> list[int]:
        """Those of some epochs that count."""
        newest = max(epochs, default=-1)
        if newest > self._listed_to:
            decisions = {epoch: self.decision(epoch) for epoch in self.ever_closed()}
            self._redone = frozenset(epoch for epoch, redone in decisions.items() if redone)
            self._listed_to = min([newest, *(epoch - 1 for epoch, redone in decisions.items() if redone is None)])
        return [epoch for epoch in epochs if epoch not in self._redone]

    def ever_closed(self) -> list[int]:
        """Epochs that were closed, whatever was decided, ascending.

        Raises:
            StateError: `REDO_DECISION_CORRUPT`: the closure of a decision is gone; without it the epoch would count.
        """
        matches = [match for match in map(_NAME.fullmatch, self._blobs.list(REDO_FOLDER)) if match is not None]
        closures = {match[1] for match in matches if not match[3]}
        for match in matches:
            # A list that was made meanwhile may have the later blob alone.
            if match[1] not in closures and not self._blobs.exists(match[1]):
                raise _corrupt(f"{match[1]}, whose decision is there, is gone from the checkpoint", int(match[2]))
        return sorted({int(match[2]) for match in matches})

    def is_closed(self, epoch: int) -> bool:
        """Whether attempts of an epoch are to give up, as of now."""
        return any(decision is not False for _, decision in self._closures(epoch))

    def check_open(self, epoch: int, bundle: str) -> None:
        """Check that an attempt may go on with what it has published.

        Raises:
            StateError: `STATE_MOVED`: it may not.
        """
        if self.is_closed(epoch):
            raise StateError(
                "STATE_MOVED",
                f"epoch {epoch} is closed: a start of another program does it again, or is about to decide that. This "
                "attempt gives up; nothing of it counts unless the epoch is opened again",
                bundle=bundle,
                epoch=epoch,
            )

    def close(self, epoch: int) -> int:
        """Have the attempts of an epoch give up, until it is decided about; returns the number of the closure.

        If it is closed already, that of the closure that holds.
        """
        closures = list(self._closures(epoch))
        if closures and closures[-1][1] is not False:
            return closures[-1][0]
        self._blobs.put_if_absent(_name(epoch, len(closures)), b"")
        return len(closures)

    def decision(self, epoch: int) -> bool | None:
        """Whether an epoch that was closed is redone; `None`: it is still to be decided.

        Raises:
            StateError: `REDO_DECISION_CORRUPT`.
        """
        return next((decision for _, decision in self._closures(epoch) if decision is not False), False)

    def decide(self, epoch: int, closure: int, *, redone: bool) -> bool:
        """End a closure, unless that was done before; returns what holds: whether the epoch is redone."""
        body = with_checksum(_REDONE if redone else _COUNTS)
        if self._blobs.put_if_absent(f"{_name(epoch, closure)}.decision", body):
            return redone
        return self._decision(epoch, closure) is True

    def _closures(self, epoch: int) -> Iterator[tuple[int, bool | None]]:
        """The closures of an epoch, each with its decision. All but the last ended with *it counts*."""
        number = 0
        while self._blobs.exists(_name(epoch, number)):
            yield number, self._decision(epoch, number)
            number += 1

    def _decision(self, epoch: int, closure: int) -> bool | None:
        data = self._blobs.get(f"{_name(epoch, closure)}.decision")
        if data is None:
            return None
        body = without_checksum(data)
        if body not in (_REDONE, _COUNTS):
            raise _corrupt(
                f"{_name(epoch, closure)}.decision in the checkpoint, which says whether an epoch counts, is damaged "
                f"({len(data)} bytes)",
                epoch,
            )
        return body == _REDONE


def _corrupt(what: str, epoch: int) -> StateError:
    return StateError(
        "REDO_DECISION_CORRUPT",
        f"{what}. Restore the checkpoint from a copy, or start over with `hayase app reset`",
        epoch=epoch,
    )


def _name(epoch: int, closure: int) -> str:
    return f"{REDO_FOLDER}{epoch:020d}-{closure:06d}"
