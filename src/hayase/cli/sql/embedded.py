"""A server that the shell starts for itself."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Sequence

from hayase.client import SqlClient, SqlServerError
from hayase.core.errors import ConfigError

_LOOPBACK = "127.0.0.1"
_START_S = 60.0
_ASK_EVERY_S = 0.1
_STOP_S = 30.0


class EmbeddedServer:
    """A server in a process of its own, on loopback, whose queries run without Spark; it ends with the shell.

    Args:
        options: of `hayase server`, beside the address.

    Raises:
        ConfigError: `SERVER_NOT_STARTED`.
    """

    def __init__(self, options: Sequence[str]) -> None:
        self.url = f"http://{_LOOPBACK}:{_free_port()}"
        command = [sys.executable, "-m", "hayase", "server", "--in-process", "--end-with-stdin"]
        command += ["-c", f"listeners={self.url}", *options]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )
        try:
            self._wait()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End the server; queries that persist go on at the next start."""
        process = self._process
        if process.stdin is not None:
            process.stdin.close()
        try:
            process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stderr is not None:
            process.stderr.close()

    def _wait(self) -> None:
        deadline = time.monotonic() + _START_S
        with SqlClient(self.url) as client:
            while True:
                try:
                    client.info()
                except SqlServerError as error:
                    if self._process.poll() is not None:
                        raise self._failed("it has ended") from error
                    if time.monotonic() > deadline:
                        raise self._failed(f"it does not answer within {_START_S:g} s") from error
                    time.sleep(_ASK_EVERY_S)
                else:
                    return

    def _failed(self, why: str) -> ConfigError:
        self._process.kill()
        output = self._process.stderr.read().strip() if self._process.stderr is not None else ""
        return ConfigError(
            "SERVER_NOT_STARTED",
            f"the shell's own server cannot be used: {why}. Its last words: {output[-500:] or 'none'}. `hayase sql "
            "--server URL` uses one that runs",
        )


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((_LOOPBACK, 0))
        port: int = probe.getsockname()[1]
        return port
