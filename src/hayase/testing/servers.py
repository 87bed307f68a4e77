"""Processes of servers on loopback that end with the process that started them, and free ports for them."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Mapping
from pathlib import Path

HOST = "127.0.0.1"

# Below the range of ports that the kernel gives to outgoing connections: a client that keeps trying to reach a
# stopped server on such a port could be given the very same port and connect to itself.
_PORTS = range(20_000, 32_000)
_STOP_SECONDS = 20
# The server replaces this shell, so it keeps its process id ($$). The background part waits for one line on the pipe
# that the parent holds open. If the pipe ends without it, the parent is gone, and the server is ended.
LAUNCHER = """
exec 3<&0 </dev/null
(
  read -r _ && exit 0
  kill -TERM $$
  for _ in 1 2 3 4 5 6 7 8 9 10; do sleep 0.5; kill -0 $$ 2>/dev/null || exit 0; done
  kill -KILL $$
) <&3 &
exec "$@" 3<&-
"""
"""Shell script that runs its arguments as a command, and ends it when the pipe on its input ends without a line."""


def free_ports(count: int, skip: int = 0, wanted: int | None = None) -> tuple[int, ...] | None:
    """Free ports, `wanted` first if given; `None` if there are not as many.

    Processes start looking at different places, so that they seldom meet; `skip` moves that place.
    """
    ports = [] if wanted is None else [wanted]
    first = (os.getpid() * 37 + skip * 101) % len(_PORTS)
    for step in range(len(_PORTS)):
        if len(ports) == count:
            return tuple(ports)
        port = _PORTS[(first + step) % len(_PORTS)]
        if port != wanted and _is_free(port):
            ports.append(port)
    return None


class ServerProcess:
    """A server that was started; it ends when the process that started it ends, however that happens."""

    def __init__(
        self,
        command: list[str],
        log_file: Path,
        environment: Mapping[str, str] | None = None,
        *,
        user: int | None = None,
        cwd: Path | None = None,
    ) -> None:
        """Start it; what it says is appended to `log_file`.

        Its environment and folder are this process's, unless others are given. `user` is the id of the user and group
        that it runs as, which only root can choose.
        """
        with log_file.open("ab") as log:
            # A session of its own: Ctrl-C in the terminal must not end the server before its users.
            self._process = subprocess.Popen(
                ["sh", "-c", LAUNCHER, "hayase-server", *command],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env=environment,
                umask=0o077,
                cwd=cwd,
                user=user,
                group=user,
                extra_groups=None if user is None else [],
            )

    @property
    def pid(self) -> int | None:
        """Process id; `None` if it has ended."""
        return self._process.pid if self._process.poll() is None else None

    @property
    def status(self) -> int | None:
        """Exit status; `None` while it runs."""
        return self._process.poll()

    def end(self, *, by_force: bool = False) -> None:
        """End it, in good order unless `by_force`, or by force after 20 s; waits until it and its watcher are gone."""
        process = self._process
        if by_force:
            process.kill()
        else:
            process.terminate()
        try:
            process.wait(timeout=_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        assert process.stdin is not None, "it was started with a pipe"
        try:
            process.stdin.write(b"done\n")  # tells the watcher that nothing is left to end
            process.stdin.close()
        except BrokenPipeError:
            pass  # the watcher was ended by another process


def _is_free(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True
