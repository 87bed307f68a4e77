"""A project of ksql-migrations: its settings and its files."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from hayase.core.errors import ConfigError
from hayase.core.properties import parse_properties
from hayase.sql.grammar.script_files import script_text

CONFIG_NAME = "ksql-migrations.properties"
_FILE = re.compile(r"V(\d{6})__(.+)\.sql")
_VERSION_MAX = 999_999
_TEMPLATE = """# Settings of the project; those with # have their defaults.
ksql.server.url={url}
# ksql.auth.basic.username=
# ksql.auth.basic.password=
# ksql.migrations.stream.name=MIGRATION_EVENTS
# ksql.migrations.table.name=MIGRATION_SCHEMA_VERSIONS
# ksql.migrations.stream.topic.name=<service id>ksql_<name of the stream>
# ksql.migrations.table.topic.name=<service id>ksql_<name of the table>
# ksql.migrations.topic.replicas=1
# ksql.migrations.dir.override=
"""


@dataclass(frozen=True)
class Migration:
    """A file of statements that is applied once.

    Attributes:
        version: from 1.
        name: what it does.
        file: that holds the statements.
    """

    version: int
    name: str
    file: Path

    @property
    def checksum(self) -> str:
        """MD5 of the file, as ksql-migrations has it; it tells changes, and protects from nothing."""
        return hashlib.md5(self.file.read_bytes(), usedforsecurity=False).hexdigest()

    @property
    def text(self) -> str:
        """The statements."""
        return script_text(self.file)


@dataclass(frozen=True)
class Project:
    """A folder with the settings file and the folder `migrations`.

    Attributes:
        folder: of the migrations.
        settings: of the file.
    """

    folder: Path
    settings: Mapping[str, str]

    @classmethod
    def read(cls, config_file: Path) -> Project:
        """The project of a settings file.

        Raises:
            ConfigError: `NO_PROJECT`, `MISSING_SETTING`.
        """
        try:
            settings = parse_properties(config_file.read_text(encoding="utf-8"), str(config_file))
        except OSError as error:
            raise ConfigError(
                "NO_PROJECT", f"{config_file} cannot be read: {error}. Name the file by --config-file, or make a "
                "project by `hayase sql migrate new-project`",
            ) from error  # fmt: skip
        if not settings.get("ksql.server.url"):
            raise ConfigError("MISSING_SETTING", f"{config_file} has no ksql.server.url", setting="ksql.server.url")
        folder = settings.get("ksql.migrations.dir.override")
        return cls(Path(folder) if folder else config_file.parent / "migrations", settings)

    @property
    def url(self) -> str:
        """Of the server."""
        return self.settings["ksql.server.url"]

    @property
    def stream(self) -> str:
        """The stream of what was done."""
        return self.settings.get("ksql.migrations.stream.name") or "MIGRATION_EVENTS"

    @property
    def table(self) -> str:
        """The table of the last event of each version."""
        return self.settings.get("ksql.migrations.table.name") or "MIGRATION_SCHEMA_VERSIONS"

    def topics(self, service_id: str) -> tuple[str, str]:
        """The topics of stream and table, at a server of a service id."""
        stream, table = (
            self.settings.get(f"ksql.migrations.{kind}.topic.name") or f"{service_id}ksql_{name}"
            for kind, name in (("stream", self.stream), ("table", self.table))
        )
        return stream, table

    def migrations(self) -> list[Migration]:
        """All migrations by their version.

        Raises:
            ConfigError: `NO_PROJECT`: there is no folder; `DUPLICATE_VERSION`: two files have the same version.
        """
        if not self.folder.is_dir():
            raise ConfigError("NO_PROJECT", f"there is no folder {self.folder} with migrations")
        found: dict[int, Migration] = {}
        for file in sorted(self.folder.iterdir()):
            name = _FILE.fullmatch(file.name)
            if name is None:
                continue
            each = Migration(int(name[1]), name[2].replace("_", " "), file)
            if each.version in found:
                raise ConfigError(
                    "DUPLICATE_VERSION", f"{file.name} and {found[each.version].file.name} have the same version"
                )
            found[each.version] = each
        return list(found.values())

    def create(self, description: str, version: int | None = None) -> Path:
        """Make an empty file for the next version, or for that one.

        Raises:
            ConfigError: `INVALID_VERSION`, `INVALID_DESCRIPTION`.
        """
        known = {each.version for each in self.migrations()}
        version = max(known, default=0) + 1 if version is None else version
        if not 1 <= version <= _VERSION_MAX or version in known:
            raise ConfigError(
                "INVALID_VERSION", f"{version} is taken, or not from 1 to {_VERSION_MAX}; leave --version out for the "
                "next one",
            )  # fmt: skip
        if not description.strip() or "/" in description:
            raise ConfigError("INVALID_DESCRIPTION", f"{description!r} cannot be part of a file's name")
        file = self.folder / f"V{version:06}__{description.strip().replace(' ', '_')}.sql"
        file.touch(exist_ok=False)
        return file


def new_project(folder: Path, url: str) -> Path:
    """Make a project; its settings file.

    Raises:
        ConfigError: `PROJECT_EXISTS`.
    """
    file = folder / CONFIG_NAME
    if file.exists():
        raise ConfigError("PROJECT_EXISTS", f"{file} is there already; name another folder")
    (folder / "migrations").mkdir(parents=True, exist_ok=True)
    file.write_text(_TEMPLATE.format(url=url), encoding="utf-8")
    return file
