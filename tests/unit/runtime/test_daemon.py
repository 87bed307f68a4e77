"""Workers of Spark's daemon end without a word when the JVM closes the connection."""

from __future__ import annotations

import subprocess
import sys

import pytest

SCRIPT = """
import os, socket, sys
from hayase.runtime.worker.daemon import end_quietly_with_the_jvm
from pyspark import daemon
when = sys.argv[2]
if sys.argv[1] == "quiet":
    end_quietly_with_the_jvm(daemon)
import pyspark.worker
def main(infile, outfile):
    outfile.write(b"x" * 100)
    theirs.close()
    if when == "in the middle":
        outfile.flush()
pyspark.worker.main = main
ours, theirs = socket.socketpair()
sys.argv[1:] = []
try:
    print(daemon.worker(ours, True))
except BaseException:
    import traceback
    traceback.print_exc()
    os._exit(1)
os._exit(0)
"""


@pytest.mark.long
@pytest.mark.parametrize("when", ["at the end", "in the middle"])
@pytest.mark.parametrize("kill", ["", "1"])
def test_a_connection_that_the_jvm_closed_leaves_no_trace_on_the_terminal(when: str, kill: str) -> None:
    def stderr_of(how: str) -> str:
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT, how, when],
            env={"PYTHON_DAEMON_KILL_WORKER_ON_FLUSH_FAILURE": kill, "PATH": ""},
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        return done.stderr

    assert "BrokenPipeError" in stderr_of("as PySpark does")
    assert stderr_of("quiet") == ""


PLAIN = """
import importlib.util, sys
from hayase.runtime.worker.plain_daemon import hide_errors_after_jvm_exit
spec = importlib.util.find_spec("pyspark.daemon")
main = importlib.util.module_from_spec(spec)
spec.loader.exec_module(main)
hide_errors_after_jvm_exit(main)
for error in (BrokenPipeError(32, "Broken pipe"), ValueError("told")):
    try:
        raise error
    except Exception:
        main.traceback.print_exc()
assert main.traceback.format_exc
"""


@pytest.mark.long
def test_workers_of_pysparks_own_daemon_tell_of_other_errors_only() -> None:
    done = subprocess.run([sys.executable, "-c", PLAIN], capture_output=True, text=True, check=True, timeout=60)
    assert "ValueError: told" in done.stderr and "BrokenPipe" not in done.stderr


LOOK_UP = """
import sys, types
from pkgutil import iter_modules
main = types.ModuleType("__main__")
main.__spec__ = types.SimpleNamespace(name="pyspark.daemon")
sys.modules["__main__"] = main
[found] = [module.name for module in iter_modules() if module.name == "pyspark_hayase"]
assert not hasattr(__import__(found), "DefaultSource")
try:
    raise BrokenPipeError(32, "Broken pipe")
except OSError:
    main.traceback.print_exc()
print(sorted({"polars", "pyarrow", "hayase.topology"} & set(sys.modules)))
"""


def test_the_worker_in_which_spark_looks_for_sources_is_quiet_too() -> None:
    done = subprocess.run([sys.executable, "-c", LOOK_UP], capture_output=True, text=True, check=True, timeout=60)
    assert (done.stdout.strip(), done.stderr) == ("[]", "")
