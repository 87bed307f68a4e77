"""Users of the server, their roles, and the hashes of their passwords."""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import re
import threading
from collections import OrderedDict
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

from hayase.core.errors import ConfigError
from hayase.server.errors import FORBIDDEN, RequestError

_COST, _BLOCK, _PARALLEL = 2**14, 8, 1
_KEPT = 256
_NAME = re.compile(r"[A-Za-z0-9._@-]+")


class Role(IntEnum):
    """What a user may do; each role may do what those before it may."""

    READ = 1
    """Ask: SELECT, LIST, DESCRIBE, EXPLAIN, PRINT."""
    WRITE = 2
    """Change: CREATE, INSERT, DROP, TERMINATE, … of streams, tables, types and queries."""
    ADMIN = 3
    """Everything: CREATE FUNCTION, connectors, ending the cluster."""


@dataclass(frozen=True)
class User:
    """A user."""

    name: str
    role: Role


def check_role(has: Role, needs: Role) -> None:
    """Refuse what a role may not do; raises RequestError."""
    if has < needs:
        raise RequestError(
            FORBIDDEN,
            "FORBIDDEN",
            f"You do not have permissions for this: it needs the role {needs.name.lower()}, and you have "
            f"{has.name.lower()}",
        )


def password_hash(password: str, salt: bytes | None = None) -> str:
    """A password as the users file keeps it: `scrypt$N$r$p$salt$hash`."""
    salt = os.urandom(16) if salt is None else salt
    digest = _scrypt(password, salt, _COST, _BLOCK, _PARALLEL)
    return f"scrypt${_COST}${_BLOCK}${_PARALLEL}${_text(salt)}${_text(digest)}"


def check_name(name: str) -> None:
    """Refuse what is no name of a user; raises ConfigError."""
    if not _NAME.fullmatch(name):
        raise ConfigError("INVALID_USER", f"{name!r} is no name of a user: letters, digits and . _ @ - are allowed")


def user_line(name: str, role: Role, password: str) -> str:
    """A line of the users file.

    Raises:
        ConfigError: the name is not allowed.
    """
    check_name(name)
    return f"{name}:{role.name.lower()}:{password_hash(password)}"


class Users:
    """The users of a file: a line `name:role:scrypt$…` each. Thread-safe.

    A password that was right is remembered by a keyed hash, because scrypt is slow on purpose.

    Args:
        path: the file; it must not be readable for others.

    Raises:
        ConfigError: `INVALID_USERS_FILE`.
    """

    def __init__(self, path: Path) -> None:
        self._hashes: dict[str, tuple[Role, str]] = {}
        self._right: OrderedDict[bytes, User] = OrderedDict()
        self._key = os.urandom(32)
        self._lock = threading.Lock()
        try:
            lines = path.read_text("utf-8").splitlines()
            mode = path.stat().st_mode
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError("INVALID_USERS_FILE", f"{path} cannot be read: {error}") from error
        if mode & 0o007:
            raise ConfigError("INVALID_USERS_FILE", f"{path} can be read by others: chmod 600 it")
        for number, line in enumerate(lines, 1):
            if line.strip() and not line.startswith("#"):
                self._add(line.strip(), f"{path}:{number}")

    def check(self, name: str, password: str) -> User | None:
        """The user of that name and password; `None`: there is none."""
        token = hmac.digest(self._key, f"{name}\0{password}".encode(), "sha256")
        with self._lock:
            if token in self._right:
                self._right.move_to_end(token)
                return self._right[token]
        role, known = self._hashes.get(name, (Role.READ, _NO_PASSWORD))
        if not _matches(password, known) or name not in self._hashes:
            return None
        user = User(name, role)
        with self._lock:
            self._right[token] = user
            while len(self._right) > _KEPT:
                self._right.popitem(last=False)
        return user

    def _add(self, line: str, place: str) -> None:
        name, _, rest = line.partition(":")
        role, _, known = rest.partition(":")
        roles = {each.name.lower(): each for each in Role}
        if role not in roles or known.count("$") != 5 or not known.startswith("scrypt$"):
            raise ConfigError(
                "INVALID_USERS_FILE",
                f"{place} is no user: lines are name:role:hash, roles are {', '.join(roles)}; "
                "make lines with `hayase server user NAME`",
            )
        self._hashes[name] = roles[role], known


def _matches(password: str, known: str) -> bool:
    _, cost, block, parallel, salt, digest = known.split("$")
    found = _scrypt(password, base64.b64decode(salt), int(cost), int(block), int(parallel))
    return hmac.compare_digest(found, base64.b64decode(digest))


def _scrypt(password: str, salt: bytes, cost: int, block: int, parallel: int) -> bytes:
    memory = 256 * cost * block
    return hashlib.scrypt(password.encode(), salt=salt, n=cost, r=block, p=parallel, maxmem=memory, dklen=32)


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


_NO_PASSWORD = f"scrypt${_COST}${_BLOCK}${_PARALLEL}${_text(bytes(16))}${_text(bytes(32))}"
"""What a user that does not exist is compared with, so that the time tells nothing."""
