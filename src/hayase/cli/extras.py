"""Packages that only some commands need, and the extra that installs each."""

from __future__ import annotations

EXTRA_OF = {
    "botocore": "s3",
    "fastavro": "schema-registry",
    "google": "schema-registry",
    "granian": "server",
    "grpc_tools": "schema-registry",
    "h2": "server",
    "httpx2": "server",
    "psycopg": "postgres",
    "pydantic": "pydantic",
    "pyruhvro": "schema-registry",
    "starlette": "server",
}


def how_to_install(error: ModuleNotFoundError) -> str | None:
    """What to say of a package that is missing; `None`: no extra of Hayase has it."""
    package = (error.name or "").split(".")[0]
    extra = EXTRA_OF.get(package)
    if extra is None:
        return None
    return f"this needs the package {package}, which is not installed: pip install 'hayase[{extra}]'"
