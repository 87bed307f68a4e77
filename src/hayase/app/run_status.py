"""Looking at an application, and pausing it, from another process on its machine."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

import msgspec

from hayase.app.report import ProgressReport
from hayase.core.config import StreamsConfig
from hayase.core.decoding import decode_json
from hayase.core.errors import ConfigError, HayaseError, StateError, StreamsStoppedError
from hayase.core.private_files import write_file
from hayase.runtime.driver.lease import lease_holder
from hayase.runtime.wire.driver_control import DriverControl
from hayase.storage.blobs import BlobStore
from hayase.storage.open import open_blobs
from hayase.task.epoch_record import Epochs

_LOG = logging.getLogger("hayase.app")

RUNS = "run"
"""Folder of an application's runs, inside its state folder."""
_LAST_RUN = "last_run.json"
_SAY_EVERY_S = 0.5
_POLL_S = 0.02
_STARTING_S = 5.0


class RunStatus(msgspec.Struct, frozen=True):
    """The status that an application publishes about its run.

    Attributes:
        state: name of its state.
        epochs: number of epochs completed in this run.
        last_epoch: number of the last of them, -1 if there was none.
        consumed, produced, late, dropped, dead_letters: records; see ProgressReport.
        lag_records: records that no complete epoch covers.
        waiting: why no epoch can be planned at the moment.
        replaced: how often the query was started again after a failure.
        metrics_url: where its metrics are.
        error: why it ended, if it failed.
    """

    state: str
    epochs: int = 0
    last_epoch: int = -1
    consumed: int = 0
    produced: int = 0
    late: int = 0
    dropped: int = 0
    dead_letters: int = 0
    lag_records: int | None = None
    waiting: str = ""
    replaced: int = 0
    metrics_url: str = ""
    error: str = ""

    @classmethod
    def of(cls, report: ProgressReport, replaced: int, metrics_url: str = "", error: str = "") -> RunStatus:
        """From a progress report."""
        return cls(
            report.state.value, report.epochs, report.last_epoch, report.consumed, report.produced, report.late,
            report.dropped, report.dead_letters, report.lag_records, report.waiting, replaced, metrics_url, error,
        )  # fmt: skip


class RunTold:
    """Tells other processes about a run: at most twice a second, and only what has changed."""

    def __init__(self, control: DriverControl, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._control = control
        self._monotonic = monotonic
        self._when = -_SAY_EVERY_S
        self._told: RunStatus | None = None

    def say(self, status: Callable[[], RunStatus]) -> None:
        """Tell it, if it is time; else it is not asked for."""
        now = self._monotonic()
        if now - self._when < _SAY_EVERY_S:
            return
        self._when = now
        if (new := status()) != self._told:
            try:
                self._control.publish_run(msgspec.json.encode(new))
            except StateError as error:  # a full disk: the run is worth more than what is said of it
                _LOG.debug("other processes do not see the run: %s", error)
                return
            self._told = new


class ApplicationStatus(msgspec.Struct, frozen=True):
    """The status of an application as other processes see it.

    Attributes:
        application_id: of the application.
        running: whether a process runs it.
        holder: that process, as `pid 123 on host`.
        paused: whether it is paused.
        holding: whether it has come to rest between epochs since.
        finished_epoch: the last epoch marked as through in the checkpoint, -1 if there is none. The mark is made when
            the next epoch is asked for.
        run: what the run said last; of the last run if it is not running; `None` if nothing is known.
        failed_at_start: whether no epoch of it was ever finished, and the last run failed.
    """

    application_id: str
    running: bool
    holder: str
    paused: bool
    holding: bool
    finished_epoch: int
    run: RunStatus | None
    failed_at_start: bool = False


def application_status(config: StreamsConfig) -> ApplicationStatus:
    """How the application with these settings is; changes nothing."""
    holder = lease_holder(_blobs(config))
    control = DriverControl.of_running(_folder(config) / RUNS) if holder is not None else None
    data = control.run() if control is not None else _read(_folder(config) / _LAST_RUN) if holder is None else None
    run = decode_json(data, as_type=RunStatus) if data else None
    finished = _finished(config)
    failed = holder is None and run is not None and bool(run.error) and run.epochs == 0 and finished < 0
    return ApplicationStatus(
        config.application_id,
        holder is not None,
        holder or "",
        control is not None and control.pause_requested(),
        control is not None and control.suspended(),
        finished,
        run,
        failed and not _blobs(config).is_empty(),  # else its checkpoint may be elsewhere
    )


def applications(settings: Mapping[str, object]) -> list[ApplicationStatus]:
    """How each application is that has a folder in `state.dir`, by application.id; changes nothing.

    Args:
        settings: where state is; a `checkpoint.dir` in them is left out, as it is that of one application.
    """
    known = {key: value for key, value in settings.items() if key not in ("application.id", "checkpoint.dir")}
    place = Path(StreamsConfig({**known, "application.id": "-"}).state_dir)
    statuses = []
    for folder in sorted(place.iterdir()) if place.is_dir() else ():
        if has_state(folder):
            with suppress(ConfigError):  # a folder of the user whose name is no application.id
                statuses.append(application_status(StreamsConfig({**known, "application.id": folder.name})))
    return statuses


def has_state(folder: Path) -> bool:
    """Whether a folder in `state.dir` is that of an application."""
    return any((folder / part).is_dir() for part in ("checkpoint", "state"))


def pause_application(config: StreamsConfig, *, timeout_s: float) -> bool:
    """Pause the running application; whether it has come to rest between epochs within the timeout.

    Raises:
        StreamsStoppedError: NOT_RUNNING.
    """
    control = _running(config)
    control.request_pause(True)
    deadline = time.monotonic() + timeout_s
    while not control.suspended() and time.monotonic() < deadline:
        time.sleep(_POLL_S)
    return control.suspended()


def resume_application(config: StreamsConfig) -> bool:
    """Have a paused application go on; `False` if it was not paused.

    Raises:
        StreamsStoppedError: NOT_RUNNING.
    """
    control = _running(config)
    paused = control.pause_requested()
    control.request_pause(False)
    return paused


def leave_note(config: StreamsConfig, status: RunStatus) -> None:
    """Keep for later how a run ended; best effort."""
    try:
        write_file(_folder(config) / _LAST_RUN, msgspec.json.encode(status))
    except OSError:
        return


def note_of_end(report: ProgressReport, replaced: int, error: HayaseError | None) -> RunStatus:
    """How a run ended."""
    return RunStatus.of(report, replaced, error=str(error) if error is not None else "")


def forget_note(config: StreamsConfig) -> None:
    """Nothing is known of earlier runs any more."""
    (_folder(config) / _LAST_RUN).unlink(missing_ok=True)


def _running(config: StreamsConfig) -> DriverControl:
    """The control folder of the running application; one that is just starting has it in a moment."""
    deadline = time.monotonic() + _STARTING_S
    while lease_holder(_blobs(config)) is not None:
        control = DriverControl.of_running(_folder(config) / RUNS)
        if control is not None:
            return control
        if time.monotonic() > deadline:
            break
        time.sleep(_POLL_S)
    raise StreamsStoppedError(
        "NOT_RUNNING",
        f"application {config.application_id!r} is not running on this machine with the checkpoint "
        f"{config.checkpoint_dir}; start it with `hayase run`, or name the settings it runs with",
    )


def _finished(config: StreamsConfig) -> int:
    return Epochs(_blobs(config)).last_done()


def _blobs(config: StreamsConfig) -> BlobStore:
    return open_blobs(config.checkpoint_dir, fsync=False)


def _folder(config: StreamsConfig) -> Path:
    return config.state_dir / config.application_id


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
