"""Make the lock files again from pyproject.toml: `make lock`. Needs the network; uv is installed for the occasion."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import tomllib
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
UV = "uv==0.13.8"
OPTIONS = (
    "--generate-hashes", "--no-header", "--no-emit-index-url", "--no-emit-find-links", "--no-annotate",
    "--universal", "--python-version", "3.11", "--quiet",
)  # fmt: skip


def main() -> None:
    """Write requirements.lock and requirements-java.lock."""
    java = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]["java"]
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        python = Path(folder) / "bin" / "python"
        subprocess.run([python, "-m", "pip", "install", "--quiet", UV], check=True)
        compile_ = [str(Path(folder) / "bin" / "uv"), "pip", "compile", *OPTIONS]
        # Tests need every extra but Java.
        extras = [
            "--extra",
            "schema-registry",
            "--extra",
            "s3",
            "--extra",
            "pydantic",
            "--extra",
            "server",
            "--extra",
            "postgres",
            "--extra",
            "personal",
            "--extra",
            "s3-files",
        ]
        groups = [*extras, "--group", "dev", "--group", "build"]
        subprocess.run([*compile_, "pyproject.toml", *groups, "-o", "requirements.lock"], cwd=ROOT, check=True)
        only_java = Path(folder) / "java.in"
        only_java.write_text("\n".join(java) + "\n")
        subprocess.run([*compile_, str(only_java), "-o", "requirements-java.lock"], cwd=ROOT, check=True)


if __name__ == "__main__":
    sys.exit(main())
