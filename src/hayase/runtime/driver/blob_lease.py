"""A lease in a store that has no locks: its holder says so again every few seconds."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import NamedTuple

import msgspec

from hayase.core.decoding import decode_json
from hayase.core.errors import HayaseError, LeaseHeldError
from hayase.state.lease_holder import Holder, is_gone, this_process
from hayase.storage.blobs import BlobStore

_LOG = logging.getLogger("hayase.runtime")

BEAT_S = 5.0
"""How often the holder says that it lives."""
PATIENCE_S = 20.0
"""How long a holder on another machine must be silent before it is taken for dead."""
_LOOK_S = 0.5
_FOLDER = "lease/"


class _Beat(NamedTuple):
    term: int
    beat: int

    @property
    def name(self) -> str:
        return f"{_FOLDER}{self.term:012d}-{self.beat:012d}"


def blob_lease_holder(blobs: BlobStore) -> str | None:
    """The holder of the lease, as `pid 123 on host`; `None` if no process has.

    A dead holder on another machine still counts.
    """
    _, holder = _last_beat(blobs)
    return None if holder is None or holder.released or is_gone(holder) else str(holder)


class BlobLease:
    """A lease made of blobs at `lease/<term>-<beat>`.

    Who publishes the first beat of a term holds the lease for that term.

    The holder publishes another beat every 5 seconds and deletes the one before. A process of this machine that is
    gone, and one of another machine that was silent for 20 seconds, is followed by the next term. No clocks are
    compared: the one that waits measures the silence itself. A holder that was only slow finds the next term, or the
    beat of another process, and knows that it has lost: see `lost`. Until then two copies may run; what they publish is
    still published once.

    Args:
        blobs: the checkpoint.
        application_id: for messages.
        beat_s: seconds between beats.
        patience_s: seconds of silence after which a holder on another machine is taken for dead; several beats.
        monotonic: clock for the silence.
        sleep: waits that many seconds between two looks.
    """

    def __init__(
        self,
        blobs: BlobStore,
        application_id: str,
        *,
        beat_s: float = BEAT_S,
        patience_s: float = PATIENCE_S,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._blobs = blobs
        self._application_id = application_id
        self._beat_s = beat_s
        self._patience_s = patience_s
        self._monotonic = monotonic
        self._sleep = sleep
        self._me = this_process()
        self._held: _Beat | None = None
        self._lost: LeaseHeldError | None = None
        self._forget = False
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> BlobLease:
        """Take the lease; waits up to 20 s if its holder may have died on another machine.

        Raises:
            LeaseHeldError: another process has it.
        """
        self._take(self._wait_for_term())
        self._thread = threading.Thread(target=self._live, name="hayase-lease", daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._thread is not None:
            self._stop.set()
            self._thread.join()
            self._thread = None
        if self._held is None or self._lost is not None:
            return
        try:
            if self._forget:
                self._blobs.delete_below(_FOLDER)
            else:
                # The term stays on record, so that none is ever counted twice.
                self._renew(msgspec.structs.replace(self._me, released=True))
        except HayaseError as failed:
            _LOG.warning("the lease of %s was not given back, it runs out: %s", self._application_id, failed)
        self._held = None

    def lost(self) -> LeaseHeldError | None:
        """`LEASE_LOST` if another copy has taken the lease because this one was silent for too long."""
        return self._lost

    def forget(self) -> None:
        """All of it goes when it is given back."""
        self._forget = True

    def renew(self) -> bool:
        """Say that we live; whether the lease is still ours. Done by a thread every few seconds."""
        return self._lost is None and self._renew(self._me)

    def _live(self) -> None:
        while not self._stop.wait(self._beat_s):
            try:
                if not self.renew():
                    return
            except (
                Exception
            ) as error:  # the store may be back before the lease runs out; without this thread no process would know
                _LOG.warning("the lease of %s could not be renewed: %s", self._application_id, error)

    def _wait_for_term(self) -> int:
        """The term that may be taken; raises if a holder lives."""
        seen: _Beat | None = None
        since = 0.0
        while True:
            last, holder = _last_beat(self._blobs)
            if last is None:
                return 1
            if holder is not None and (holder.released or is_gone(holder)):
                return last.term + 1
            if holder is not None and (holder.machine == self._me.machine or seen not in (None, last)):
                raise self._refused(holder)
            now = self._monotonic()
            if seen != last:
                seen, since = last, now
                _LOG.info("%s: is %s alive? That shows within %g s", self._application_id, holder, self._patience_s)
            elif now - since >= self._patience_s:
                return last.term + 1
            self._sleep(min(_LOOK_S, self._patience_s / 4))

    def _take(self, term: int) -> None:
        first = _Beat(term, 0)
        won = self._blobs.put_if_absent(first.name, msgspec.json.encode(self._me))
        # Read back: on a store that does not publish once, both of two may get the answer that they won.
        last, holder = _last_beat(self._blobs)
        if not won or last != first or holder is None or holder.token != self._me.token:
            raise self._refused(holder)
        self._held = first
        self._delete_before(first)

    def _renew(self, say: Holder) -> bool:
        assert self._held is not None
        last, holder = _last_beat(self._blobs)
        # Ours is known by its token, not by its name: a beat whose publishing failed may be there all the same.
        if last is None or holder is None or holder.token != self._me.token:
            return self._lose(holder)
        following = _Beat(last.term, last.beat + 1)
        if not self._blobs.put_if_absent(following.name, msgspec.json.encode(say)):
            return self._lose(_last_beat(self._blobs)[1])
        self._held = following
        self._delete_before(following)
        return True

    def _delete_before(self, beat: _Beat) -> None:
        for name in self._blobs.list(_FOLDER):
            if name < beat.name:
                self._blobs.delete(name)

    def _refused(self, holder: Holder | None) -> LeaseHeldError:
        return LeaseHeldError(
            "LEASE_HELD",
            f"application {self._application_id!r} is running already ({holder or 'holder unknown'}); stop it first, "
            "or give this one another application.id",
        )

    def _lose(self, holder: Holder | None) -> bool:
        self._lost = LeaseHeldError(
            "LEASE_LOST",
            f"another copy of application {self._application_id!r} ({holder or 'unknown'}) has taken over, because "
            f"this one was silent for more than {self._patience_s:g} s; this one stops. Was the machine paused, or "
            "the checkpoint out of reach?",
        )
        return False


def _last_beat(blobs: BlobStore) -> tuple[_Beat | None, Holder | None]:
    """The newest beat, and whose it is; `None` for a holder whose beat went just now."""
    names = blobs.list(_FOLDER)
    if not names:
        return None, None
    term, _, beat = names[-1].removeprefix(_FOLDER).partition("-")
    data = blobs.get(names[-1])
    return _Beat(int(term), int(beat)), None if data is None else decode_json(data, as_type=Holder)
