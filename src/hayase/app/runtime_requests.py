"""Requests to a running shared runtime from other processes of its user on its machine, and what it says of itself."""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Literal

import msgspec

from hayase.app.run_status import RUNS, RunStatus
from hayase.core.config import StreamsConfig
from hayase.core.decoding import decode_json
from hayase.core.errors import HayaseError, StreamsStoppedError
from hayase.core.private_files import make_folder, write_file
from hayase.runtime.driver.lease import lease_holder
from hayase.runtime.wire.driver_control import DriverControl
from hayase.runtime.wire.failure import find_error
from hayase.storage.open import open_blobs

_LOG = logging.getLogger("hayase.app")

_REQUESTS = "requests"
_ANSWERS = "answers"
_POLL_S = 0.02
_STARTING_S = 5.0

Action = Literal["add", "replace", "remove", "pause", "resume", "restart"]


class RuntimeRequest(msgspec.Struct, frozen=True):
    """One request.

    Attributes:
        action: what is to be done.
        name: of the topology.
        program: of an `add` or `replace`: digest of the program in the runtime's checkpoint.
        application_id: of an `add`: adopts the checkpoint of that application.
        delete_state: of a `remove`.
        delete_removed_stores: of a `replace`.
    """

    action: Action
    name: str
    program: str = ""
    application_id: str = ""
    delete_state: bool = False
    delete_removed_stores: bool = False


class _Answer(msgspec.Struct, frozen=True):
    """What became of a request: an error, or what was changed, line by line."""

    error: str = ""
    lines: list[str] = []


class TopologyStatus(msgspec.Struct, frozen=True):
    """A topology as its runtime publishes it."""

    application_id: str
    paused: bool
    run: RunStatus
    errors: list[tuple[int, str]] = []


class RuntimeStatus(msgspec.Struct, frozen=True):
    """A runtime as it publishes itself: its state, where its metrics are, and its topologies by name."""

    state: str
    metrics_url: str
    topologies: dict[str, TopologyStatus]


class RequestFolder:
    """The requests, in the folder of the runtime's run; only the user may enter it."""

    def __init__(self, folder: Path) -> None:
        self._requests, self._answers = folder / _REQUESTS, folder / _ANSWERS

    def open(self) -> None:
        """Runtime: take requests from now on."""
        make_folder(self._answers)
        make_folder(self._requests)

    def take(self) -> Iterator[tuple[str, RuntimeRequest]]:
        """Runtime: the requests that have come, each with its id; what is none is answered here.

        One that cannot be taken now, without room on the disk for example, waits, and the others do not wait for it.
        """
        for path in sorted(self._requests.glob("*.json")):
            try:
                request = self._read(path)
                path.unlink()
            except OSError as error:
                _LOG.debug("request %s waits: %s", path.name, error)
                continue
            if request is not None:
                yield path.stem, request

    def _read(self, path: Path) -> RuntimeRequest | None:
        try:
            return decode_json(path.read_bytes(), as_type=RuntimeRequest)
        except msgspec.MsgspecError as error:
            self.answer(path.stem, _not_understood(error))
            return None

    def answer(self, request: str, error: HayaseError | None, lines: Sequence[str] = ()) -> None:
        """Runtime: what became of a request."""
        text = "" if error is None else f"hayase.core.errors.{type(error).__name__}: {error}"
        _write(self._answers / request, msgspec.json.encode(_Answer(text, list(lines))))

    def ask(self, request: RuntimeRequest, timeout_s: float, alive: Callable[[], bool]) -> list[str]:
        """Another process: send a request and wait until it is done; what was changed, line by line.

        Raises:
            HayaseError: the runtime refused it, has ended, or did not answer in time.
        """
        name = uuid.uuid4().hex
        try:
            _write(self._requests / f"{name}.json", msgspec.json.encode(request))
        except FileNotFoundError as error:
            raise _not_running("it has just ended") from error
        deadline = time.monotonic() + timeout_s
        answer = self._answers / name
        while not answer.exists():
            if not alive():
                raise _not_running("it ended while the request was waiting")
            if time.monotonic() > deadline:
                raise StreamsStoppedError(
                    "TIMED_OUT", f"the runtime did not finish the request within {timeout_s:g} s; it may still do it"
                )
            time.sleep(_POLL_S)
        said = decode_json(answer.read_bytes(), as_type=_Answer)
        answer.unlink()
        if said.error:
            raise find_error(said.error) or StreamsStoppedError("REQUEST_FAILED", said.error)
        return said.lines


def running_runtime(config: StreamsConfig) -> tuple[RequestFolder, Callable[[], bool]]:
    """The requests of the runtime with these settings, and whether it runs.

    Raises:
        StreamsStoppedError: `NOT_RUNNING`.
    """
    blobs = open_blobs(config.checkpoint_dir, fsync=False)
    deadline = time.monotonic() + _STARTING_S
    while lease_holder(blobs) is not None and time.monotonic() < deadline:
        for folder in _run_folders(config):
            if (folder / _REQUESTS).is_dir():
                return RequestFolder(folder), lambda: lease_holder(blobs) is not None
        time.sleep(_POLL_S)
    raise _not_running(f"no process runs {config.application_id!r} with the checkpoint {config.checkpoint_dir}")


def runtime_status(config: StreamsConfig) -> RuntimeStatus | None:
    """What the runtime with these settings says of itself; `None` if it does not run."""
    if lease_holder(open_blobs(config.checkpoint_dir, fsync=False)) is None:
        return None
    for folder in _run_folders(config):
        data = DriverControl(folder).run()
        if data is not None:
            return decode_json(data, as_type=RuntimeStatus)
    return RuntimeStatus("REBALANCING", "", {})


def _run_folders(config: StreamsConfig) -> list[Path]:
    runs = config.state_dir / config.application_id / RUNS
    return [folder for folder in runs.iterdir() if folder.is_dir()] if runs.is_dir() else []


def _write(path: Path, data: bytes) -> None:
    temporary = path.with_name(f".{path.name}.new")
    write_file(temporary, data)
    temporary.replace(path)


def _not_running(why: str) -> StreamsStoppedError:
    return StreamsStoppedError(
        "NOT_RUNNING", f"the runtime does not run on this machine: {why}; start it with `hayase runtime run`"
    )


def _not_understood(error: msgspec.MsgspecError) -> StreamsStoppedError:
    return StreamsStoppedError(
        "REQUEST_NOT_UNDERSTOOD",
        f"the runtime, which is of Hayase {version('hayase')}, does not know this request ({error}): the command that "
        "sent it is of another release; use the command of the release that runs, or restart the runtime with this one",
    )
