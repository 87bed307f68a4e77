"""Where the driver's machine can be reached.

Unix sockets of the run on one machine, TCP on a cluster, for processes that know a token.
"""

from __future__ import annotations

import socket
from dataclasses import dataclass
from urllib.parse import urlsplit

_TCP = "tcp://"


@dataclass(frozen=True, slots=True)
class RunEndpoints:
    """What the processes of one run need to know to find each other.

    Attributes:
        control_dir: folder on the driver's machine through which driver and planner talk.
        sockets_dir: folder for Unix sockets on the driver's machine; only the user may enter it, and its path is short:
            that of a socket has at most about 100 characters.
        log_address: where workers send what they log; empty: nowhere.
        host: the name or address by which workers on other machines reach the driver's; empty: all are on this one.
        bind: the address to listen at for them, if it is another one.
    """

    control_dir: str
    sockets_dir: str
    log_address: str = ""
    host: str = ""
    bind: str = ""


@dataclass(frozen=True, slots=True)
class TcpAddress:
    """`tcp://token@host:port`.

    Example:
        >>> str(TcpAddress("secret", "::1", 7000)), TcpAddress.parse("tcp://secret@10.0.0.1:7000")
        ('tcp://secret@[::1]:7000', TcpAddress(token='secret', host='10.0.0.1', port=7000))
    """

    token: str
    host: str
    port: int

    @classmethod
    def parse(cls, address: str) -> TcpAddress | None:
        """`None` if it is the path of a Unix socket."""
        if not address.startswith(_TCP):
            return None
        where = urlsplit(address)
        assert where.hostname is not None and where.port is not None and where.username is not None
        return cls(where.username, where.hostname, where.port)

    def __str__(self) -> str:
        return f"{_TCP}{self.token}@{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"

    def connect(self, timeout_s: float) -> socket.socket:
        """A connection; its operations have that limit, too. The token has not been said."""
        return socket.create_connection((self.host, self.port), timeout_s)


def family_of(host: str) -> socket.AddressFamily:
    """That of sockets which listen there."""
    return socket.AF_INET6 if ":" in host else socket.AF_INET
