"""Secrets in settings: references to where they are, and how those given in clear get to workers without being written.

A value may hold references in the spelling of Kafka's configuration providers (KIP-297):

* `${env:NAME}`: an environment variable;
* `${file:PATH:KEY}`: a key of a properties file;
* `${dir:PATH:FILE}`: a file of a folder, as Kubernetes mounts secrets.

They are resolved where the value is used, in the process that connects. What is stored and shipped is the reference.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import socket
import socketserver
import threading
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from hayase.core.errors import ConfigError
from hayase.core.logs import MASK, is_secret, secret_values
from hayase.core.properties import parse_properties
from hayase.core.socket_folder import socket_folder

_REFERENCE = re.compile(r"\$\{([a-zA-Z]\w*):(?:([^}]*):)?([^}:]*)\}")
_URL_WITH_PASSWORD = re.compile(r"://[^/@\s]*:(?P<password>[^/@\s]+)@")
_DRIVER = "driver"
_END_S = 5.0
"""For the thread of a vault to end; it waits for nothing but its socket."""
_ANSWER_S = 10.0


class Settings(Mapping[str, Any]):
    """Settings of which some may be secret. Not shown when printed, and sealed when pickled to be shipped (`Vault`).

    Example:
        >>> Settings({"sasl.username": "ada", "sasl.password": "open sesame", "ssl.key.password": "${env:KEY}"})
        {'sasl.username': 'ada', 'sasl.password': '***', 'ssl.key.password': '${env:KEY}'}
    """

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, object] | None = None) -> None:
        self._values: dict[str, object] = dict(values or {})

    def __getitem__(self, key: str) -> Any:
        return self._values[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return repr({key: MASK if in_clear(key, value) else value for key, value in self._values.items()})

    def __reduce__(self) -> tuple[object, ...]:
        return Settings, ({key: seal(value) if in_clear(key, value) else value for key, value in self.items()},)


def is_reference(value: object) -> bool:
    """Whether a value holds a reference.

    Example:
        >>> is_reference("${env:KAFKA_PASSWORD}"), is_reference("open sesame")
        (True, False)
    """
    return isinstance(value, str) and _REFERENCE.search(value) is not None


def references(value: str) -> list[tuple[str, str, str]]:
    """Provider, path and key of each reference in a value.

    Example:
        >>> references("${env:USER}:${file:/run/db.properties:password}")
        [('env', '', 'USER'), ('file', '/run/db.properties', 'password')]
    """
    return [(each[1], each[2] or "", each[3]) for each in _REFERENCE.finditer(value)]


def resolve(setting: str, value: str, environ: Mapping[str, str] | None = None) -> str:
    """The value with every reference replaced by what it refers to.

    Args:
        setting: the key, for errors.
        value: of the setting.
        environ: the environment; `None`: of this process.

    Raises:
        ConfigError: `SECRET_NOT_FOUND`: what a reference names is not there. `UNKNOWN_PROVIDER`.

    Example:
        >>> resolve("sasl.password", "${env:PW}", {"PW": "open sesame"})
        'open sesame'
    """
    env = os.environ if environ is None else environ

    def one(reference: re.Match[str]) -> str:
        provider, path, key = reference.groups()
        if provider not in _PROVIDERS:
            raise _unknown_provider(setting, reference)
        try:
            return _PROVIDERS[provider](path or "", key, env)
        except (KeyError, OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else "there is no such key"
            raise _not_found(setting, reference.group(0), provider, reason) from None

    return _REFERENCE.sub(one, value)


def resolved(settings: Mapping[str, object]) -> dict[str, object]:
    """Settings with their references resolved; raises as `resolve`."""
    return {key: resolve(key, value) if isinstance(value, str) else value for key, value in settings.items()}


def check_references(settings: Mapping[str, object]) -> None:
    """Whether every reference names a provider there is; what it refers to is not looked for.

    Raises `UNKNOWN_PROVIDER`.
    """
    for key, value in settings.items():
        for reference in _REFERENCE.finditer(value if isinstance(value, str) else ""):
            if reference.group(1) not in _PROVIDERS:
                raise _unknown_provider(key, reference)


def known_secrets(settings: Mapping[str, object]) -> tuple[str, ...]:
    """What must be masked in texts.

    Secret values given in clear, and those referred to as far as they can be seen here.
    """
    seen: dict[str, str] = {}
    for key, value in settings.items():
        if isinstance(value, str):
            with contextlib.suppress(ConfigError):
                text = resolve(key, value)
                if is_secret(key):
                    seen[key] = text
                for number, url in enumerate(_URL_WITH_PASSWORD.finditer(text)):
                    seen[f"{key}.{number}.password"] = url["password"]
    return secret_values(seen)


def in_clear(key: str, value: object) -> bool:
    """Whether a value is, or holds, a secret in clear text; a URL may hold a password."""
    if not isinstance(value, str) or is_reference(value):
        return False
    return is_secret(key) or _URL_WITH_PASSWORD.search(value) is not None


def only_reference(value: object) -> bool:
    """Whether a value is one reference and nothing else."""
    return isinstance(value, str) and _REFERENCE.fullmatch(value) is not None


def _unknown_provider(setting: str, reference: re.Match[str]) -> ConfigError:
    return ConfigError(
        "UNKNOWN_PROVIDER",
        f"{setting} refers to {reference.group(0)}; there is no provider {reference.group(1)!r}. "
        "There are ${env:NAME}, ${file:PATH:KEY} and ${dir:PATH:FILE}",
        setting=setting,
    )


def _not_found(setting: str, reference: str, provider: str, reason: str) -> ConfigError:
    if provider == _DRIVER:
        return ConfigError(
            "SECRET_NOT_FOUND",
            f"the value of {setting} was given in clear, and such values are handed to processes on the driver's "
            "machine only, while the application runs. Give it as ${env:NAME}, ${file:PATH:KEY} or "
            "${dir:PATH:FILE}, which every worker resolves for itself",
            setting=setting,
        )
    reason = "the process that connects has no such variable" if provider == "env" else reason
    return ConfigError("SECRET_NOT_FOUND", f"{setting} refers to {reference}: {reason}", setting=setting)


def _from_file(path: str, key: str, _: Mapping[str, str]) -> str:
    return parse_properties(Path(path).expanduser().read_text(encoding="utf-8"), path)[key]


def _from_folder(path: str, key: str, _: Mapping[str, str]) -> str:
    folder = Path(path).expanduser()
    if "/" in key or key in ("", ".", ".."):
        raise KeyError(key)
    return (folder / key).read_text(encoding="utf-8").rstrip("\r\n")


def _from_driver(path: str, key: str, _: Mapping[str, str]) -> str:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection, connection.makefile("rwb") as stream:
        connection.settimeout(_ANSWER_S)
        connection.connect(path)
        stream.write(key.encode() + b"\n")
        stream.flush()
        answer = json.loads(stream.readline() or b"null")
    if not isinstance(answer, str):
        raise KeyError(key)
    return answer


_PROVIDERS: dict[str, Callable[[str, str, Mapping[str, str]], str]] = {
    "env": lambda path, key, environ: environ[f"{path}:{key}" if path else key],
    "file": _from_file,
    "dir": _from_folder,
    _DRIVER: _from_driver,
}


class Vault:
    """Secrets given in clear, held by the driver in memory for as long as an application runs.

    What is pickled inside `sealing()` holds, in place of each, a reference to a Unix socket in a folder that only the
    user may enter; workers on the machine ask there. So nothing of it is ever in a file.
    """

    def __init__(self) -> None:
        # Not inside the state folder: the path of a Unix socket has at most about 100 characters.
        self._folder = socket_folder("hayase-secrets-")
        self._address = str(self._folder / "socket")
        self._values: dict[str, str] = {}
        self._server = _Server(self._address, self._values)
        Path(self._address).chmod(0o600)
        self._thread = threading.Thread(target=self._server.serve, name="hayase-secrets", daemon=True)
        self._thread.start()

    @contextlib.contextmanager
    def sealing(self) -> Iterator[None]:
        """Inside, `seal` puts what it is given into this vault."""
        token = _vault.set(self)
        try:
            yield
        finally:
            _vault.reset(token)

    def keep(self, value: str) -> str:
        """Take a secret; returns the reference to it."""
        key = next((each for each, kept in self._values.items() if kept == value), str(len(self._values)))
        self._values[key] = value
        return f"${{{_DRIVER}:{self._address}:{key}}}"

    def close(self) -> None:
        """Forget everything; references lead nowhere from now on."""
        self._server.end()
        self._thread.join(_END_S)
        self._server.server_close()
        self._values.clear()
        shutil.rmtree(self._folder, ignore_errors=True)


_vault: ContextVar[Vault | None] = ContextVar("hayase_vault", default=None)


def seal(value: str) -> str:
    """A reference to the secret while something is pickled to be shipped.

    Else, or if it is a reference, the value itself.
    """
    vault = _vault.get()
    return value if vault is None or is_reference(value) else vault.keep(value)


class _Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, address: str, values: Mapping[str, str]) -> None:
        self.values = values
        self._ended = False
        super().__init__(address, _Asked)

    def serve(self) -> None:
        """Answer until `end`. It never wakes for nothing: fifty topologies have fifty of these."""
        while not self._ended:
            try:
                self.handle_request()
            except (OSError, ValueError):
                if not self._ended:  # else the socket was shut down
                    raise

    def end(self) -> None:
        """Have `serve` return, which waits for a connection."""
        self._ended = True
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)  # wakes the accept, whether or not the socket's file is there

    def handle_error(self, request: object, client_address: object) -> None:
        """A worker that ends in the middle of a question is no news."""


class _Asked(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        """One question."""
        assert isinstance(self.server, _Server)
        key = self.rfile.readline().strip().decode()
        self.wfile.write(json.dumps(self.server.values.get(key)).encode() + b"\n")
