"""Paths to nested fields: `field.syntax.version` V1 (a name) and V2 (steps with dots between, KIP-821)."""

from __future__ import annotations

from hayase.connect.config.config_def import ConfigDef, Importance
from hayase.connect.config.types import ConfigType
from hayase.connect.config.validators import one_of
from hayase.core.errors import ConfigError

SYNTAX_VERSION = "field.syntax.version"


def with_syntax_version(definition: ConfigDef) -> ConfigDef:
    """Add the key `field.syntax.version` to a definition."""
    return definition.define(
        SYNTAX_VERSION,
        ConfigType.STRING,
        "V1",
        one_of("V1", "V2", ignore_case=True),
        Importance.HIGH,
        "How a field is named. V1: by the name of a field at the top. V2: by a path into nested structs and maps, with "
        "dots "
        "between its steps; a step that has a dot itself is put between backticks.",
    )


def parse_path(path: str, version: str) -> tuple[str, ...]:
    """The steps of a path.

    Raises:
        ConfigError: `INVALID_SETTING`: a backtick that is not closed.

    Example:
        >>> parse_path("a.`b.c`.d", "V2"), parse_path("a.b", "V1")
        (('a', 'b.c', 'd'), ('a.b',))
    """
    if version.upper() == "V1":
        return (path,)
    steps: list[str] = []
    at = 0
    while at < len(path):
        if path[at] == "`":
            step, at = _quoted_step(path, at)
        else:
            end = path.find(".", at)
            end = len(path) if end < 0 else end
            step, at = path[at:end], end + 1
        steps.append(step)
    if path.endswith("."):
        steps.append("")
    return tuple(steps)


def _quoted_step(path: str, opened: int) -> tuple[str, int]:
    """A step between backticks, and where the next one begins.

    The closing one is followed by a dot or by the end; a backslash before it makes it part of the name.
    """
    parts: list[str] = []
    start = at = opened + 1
    while True:
        at = path.find("`", at)
        if at < 0:
            raise _unclosed(path, opened)
        escaped = path[at - 1] == "\\"
        if at == len(path) - 1:
            if escaped:
                raise _unclosed(path, opened)
            return "".join([*parts, path[start:at]]), at + 1
        if path[at + 1] == "." and not escaped:
            return "".join([*parts, path[start:at]]), at + 2
        if path[at + 1] == ".":
            parts.append(path[start : at - 1] + "`")
            start = at + 1
        at += 1


def _unclosed(path: str, opened: int) -> ConfigError:
    return ConfigError(
        "INVALID_SETTING",
        f"Incomplete backtick pair in path: [{path}], consider adding a backslash before backtick at position {opened} "
        "to escape it",
    )
