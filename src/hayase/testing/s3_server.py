"""A real S3 server on loopback, for tests of checkpoints on object stores."""

from __future__ import annotations

import shutil
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

from hayase.core.errors import StorageError
from hayase.core.java import JavaHome, find_java
from hayase.core.private_files import write_file
from hayase.testing.maven_jars import Artifact, maven_jars
from hayase.testing.servers import HOST, ServerProcess, free_ports

S3PROXY_VERSION = "4.1.0"
_JAR = Artifact("org.gaul", "s3proxy", S3PROXY_VERSION, "jar-with-dependencies")
_LOG_TAIL_LINES = 15

ACCESS_KEY = "hayase-tests"
SECRET_KEY = "not-a-secret"


class S3Server:
    """S3Proxy on 127.0.0.1 and a free port, with buckets as folders of a directory.

    It checks signatures (v4) and conditional writes. A context manager: entering starts it, leaving stops it. The
    server ends when the process that started it ends, however that happens. Not thread-safe.

    Example:
        with S3Server() as server:
            server.make_bucket("data")
            blobs = open_blobs(server.url("data", "app"))

    Args:
        java: the runtime; None: `find_java()`.
        start_timeout_s: how long `start` waits for the first answer, without the download.
        monotonic: the clock for that, in seconds.
        sleep: waits that many seconds between two looks.
    """

    def __init__(
        self,
        *,
        java: JavaHome | None = None,
        start_timeout_s: float = 60.0,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._java = java
        self._start_timeout_s = start_timeout_s
        self._monotonic = monotonic
        self._sleep = sleep
        self._folder: Path | None = None
        self._port: int | None = None
        self._process: ServerProcess | None = None

    @property
    def endpoint(self) -> str:
        """`http://127.0.0.1:<port>`; the same after every restart."""
        if self._port is None:
            raise StorageError("S3_SERVER_NOT_STARTED", "The server has no address yet: call start() first.")
        return f"http://{HOST}:{self._port}"

    @property
    def environment(self) -> dict[str, str]:
        """The credentials that the server accepts, as environment variables."""
        return {"AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY}

    def url(self, bucket: str, folder: str = "") -> str:
        """The `checkpoint.dir` of a folder of a bucket."""
        return f"s3://{bucket}/{folder}?endpoint={self.endpoint}"

    def make_bucket(self, name: str) -> Path:
        """Make a bucket, unless there is one; the folder in which its objects are files."""
        if self._folder is None:
            raise StorageError("S3_SERVER_NOT_STARTED", "The server has no folder yet: call start() first.")
        folder = self._folder / "buckets" / name
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def start(self) -> S3Server:
        """Start it and return once it answers.

        Does nothing if it runs. The first start on a machine downloads the server.

        Raises:
            StorageError: `S3_SERVER_FAILED` with the last lines of its log.
            MissingRequirementError: `JAVA_NOT_FOUND` or `JARS_UNAVAILABLE`.
        """
        if self._process is not None and self._process.pid is not None:
            return self
        self._java = self._java or find_java()
        jars = maven_jars(f"s3proxy-{S3PROXY_VERSION}", [_JAR], self._java)
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="hayase-s3-"))
        if self._port is None:
            ports = free_ports(1, skip=7)
            if ports is None:
                raise StorageError("S3_SERVER_FAILED", f"There is no free port on {HOST}: stop what uses them.")
            self._port = ports[0]
        config = self._write_config(self._folder)
        options = ["-Xmx1g", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
        command = [str(self._java.executable), *options, "-jar", str(jars / _JAR.file), "--properties", str(config)]
        self._process = ServerProcess(command, self._folder / "server.log")
        self._wait_for_answer(self._process, self._folder)
        return self

    def stop(self) -> None:
        """End it and remove all buckets."""
        self.pause()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def pause(self) -> None:
        """End it; buckets are kept, and `start` goes on with them on the same port."""
        if self._process is not None:
            self._process.end()
            self._process = None

    def __enter__(self) -> S3Server:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _write_config(self, folder: Path) -> Path:
        buckets = folder / "buckets"
        buckets.mkdir(exist_ok=True)
        settings = {
            "s3proxy.endpoint": self.endpoint,
            "s3proxy.authorization": "aws-v4",
            "s3proxy.identity": ACCESS_KEY,
            "s3proxy.credential": SECRET_KEY,
            # Signed requests are kept whole in memory; a test of a large blob needs more than the default.
            "s3proxy.v4-max-non-chunked-request-size": str(512 << 20),
            "jclouds.provider": "filesystem-nio2",
            "jclouds.identity": "unused",
            "jclouds.credential": "unused",
            "jclouds.filesystem.basedir": str(buckets),
        }
        path = folder / "s3proxy.conf"
        write_file(path, "".join(f"{name}={value}\n" for name, value in settings.items()).encode())
        return path

    def _wait_for_answer(self, process: ServerProcess, folder: Path) -> None:
        deadline = self._monotonic() + self._start_timeout_s
        while self._monotonic() < deadline and process.status is None:
            try:
                urllib.request.urlopen(self.endpoint, timeout=1).close()
                return
            except urllib.error.HTTPError:  # it refuses a request without signature, as it should
                return
            except OSError:
                self._sleep(0.05)
        tail = (folder / "server.log").read_text(errors="replace").splitlines()[-_LOG_TAIL_LINES:]
        process.end(by_force=True)
        raise StorageError("S3_SERVER_FAILED", "The S3 server did not start: " + " / ".join(tail))
