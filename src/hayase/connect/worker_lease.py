"""`WorkerLease`: one worker for each `group.id`, on every log."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

import msgspec

from hayase.core.decoding import decode_json
from hayase.core.errors import CheckpointError, HayaseError, LeaseHeldError, LogError
from hayase.log.protocol import Log, Marker, is_superseded
from hayase.state.lease_holder import Holder, is_gone, this_process

_LOG = logging.getLogger(__name__)
LEASE_BUNDLE = "worker"
"""No task has that name: theirs end with a number."""
BEAT_S = 5.0
PATIENCE_S = 20.0
_LOOK_S = 0.5
_END_S = 10.0


class WorkerLease:
    """Held from `__enter__` to `__exit__` by the worker of a group.

    Each beat is a marker of the group, numbered one above the last, with the holder as its digest. Of two processes
    that publish the same number, one succeeds. So the holder finds out at its next beat that another worker has taken
    over, and a process that wants the lease finds out whether the holder lives: on its own machine at once, elsewhere
    by beats that go on. The lease only tells workers of each other; what keeps records from coming twice are the
    generations of connectors.

    Args:
        log: of this object alone; the caller closes it afterwards.
        group: the worker's `group.id`.
        on_lost: called once if another worker has taken over.
        beat_s: seconds between beats.
        patience_s: seconds of silence after which a holder on another machine is taken for dead; several beats.
        monotonic: clock for the silence.
        sleep: waits that many seconds between two looks.

    Attributes:
        lost: `LEASE_LOST` if another worker has taken over.
    """

    def __init__(
        self,
        log: Log,
        group: str,
        on_lost: Callable[[], None],
        *,
        beat_s: float = BEAT_S,
        patience_s: float = PATIENCE_S,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.lost: LeaseHeldError | None = None
        self._log = log
        self._group = group
        self._on_lost = on_lost
        self._beat_s = beat_s
        self._patience_s = patience_s
        self._monotonic = monotonic
        self._sleep = sleep
        self._me = this_process()
        self._beat = 0
        self._stop = threading.Event()
        self._writer = log.writer()
        self._thread = threading.Thread(target=self._live, name="hayase-worker-lease", daemon=True)

    def __enter__(self) -> WorkerLease:
        """Take the lease; waits up to 20 s if its holder may have died on another machine.

        Raises:
            LeaseHeldError: `LEASE_HELD`: another worker of the group runs.
            LogError: the log could not be reached.
        """
        self._log.prepare_markers(self._group)
        self._beat = self._last_beat_of_former_holder()
        if not self._publish(self._me):
            raise self._refused(self._last()[1])
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        self._thread.join(_END_S)
        if self._thread.is_alive():  # the log does not answer: the lease runs out
            return
        if self.lost is None:
            try:
                self._publish(msgspec.structs.replace(self._me, released=True))
            except HayaseError as failed:
                _LOG.warning("the lease of the group %s was not given back, it runs out: %s", self._group, failed)
        self._writer.close()

    def holder(self) -> Holder | None:
        """The process that has published the last beat; `None`: there was none yet."""
        return self._last()[1]

    def renew(self) -> bool:
        """Publish the next beat; whether the lease is still ours. Done by a thread every few seconds."""
        if self.lost is None and not self._publish(self._me):
            self.lost = self._taken_over(self._last()[1])
            _LOG.error("%s", self.lost)
            self._on_lost()
        return self.lost is None

    def _live(self) -> None:
        while not self._stop.wait(self._beat_s):
            try:
                if not self.renew():
                    return
            except Exception as error:  # the log may be back soon; without this thread no process would know
                _LOG.warning("the lease of the group %s could not be renewed: %s", self._group, error)

    def _last_beat_of_former_holder(self) -> int:
        """The number of the last beat, 0 if there was none; raises if its holder lives."""
        seen: int | None = None
        since_s = 0.0
        while True:
            beat, holder = self._last()
            if holder is None or holder.released or is_gone(holder):
                return beat
            if holder.machine == self._me.machine or seen not in (None, beat):
                raise self._refused(holder)
            now_s = self._monotonic()
            if seen is None:
                seen, since_s = beat, now_s
                _LOG.info("group %s: is %s alive? That shows within %g s", self._group, holder, self._patience_s)
            elif now_s - since_s >= self._patience_s:
                return beat
            self._sleep(min(_LOOK_S, self._patience_s / 4))

    def _last(self) -> tuple[int, Holder | None]:
        """The number of the last beat and whose it is; 0 and `None` if there was none."""
        marker = self._log.marker(self._group, LEASE_BUNDLE)
        if marker is None:
            return 0, None
        return marker.epoch, decode_json(marker.digest, as_type=Holder)

    def _publish(self, holder: Holder) -> bool:
        """Publish the beat behind the last one; `False` if another process has published it."""
        marker = Marker(f"connect/{self._group}", self._beat + 1, msgspec.json.encode(holder).decode())
        try:
            self._writer.publish_epoch(self._group, LEASE_BUNDLE, marker, [])
        except (CheckpointError, LogError) as error:
            if not is_superseded(error):
                raise
            return False
        self._beat += 1
        return True

    def _refused(self, holder: Holder | None) -> LeaseHeldError:
        return LeaseHeldError(
            "LEASE_HELD",
            f"a worker of the group {self._group!r} is running already ({holder or 'holder unknown'}); connectors are "
            "made and changed there. Stop it first, or give this one another group.id and other topics "
            "(config.storage.topic, offset.storage.topic, status.storage.topic)",
            setting="group.id",
        )

    def _taken_over(self, holder: Holder | None) -> LeaseHeldError:
        return LeaseHeldError(
            "LEASE_LOST",
            f"another worker of the group {self._group!r} ({holder or 'unknown'}) has taken over the connectors, "
            f"because this one was silent for more than {self._patience_s:g} s; this one stops. Was the machine "
            "paused, or the log out of reach?",
        )
