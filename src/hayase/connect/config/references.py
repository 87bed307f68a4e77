"""References to secrets in configurations of connectors: which of them a worker resolves."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from hayase.core.errors import ConfigError
from hayase.core.secrets import references, resolve

_ALLOWED = "config.providers.{}.param.allowed.paths"
ENV_PATTERN = "config.providers.env.param.allowlist.pattern"


@dataclass(frozen=True, slots=True)
class ReferencePolicy:
    """What `${file:…}`, `${dir:…}` and `${env:…}` may refer to: a user that can make a connector can read that.

    Attributes:
        file_roots: folders of properties files.
        dir_roots: folders of files that hold one value each.
        env_pattern: regular expression of names of environment variables; `None`: none.
    """

    file_roots: tuple[Path, ...] = ()
    dir_roots: tuple[Path, ...] = ()
    env_pattern: re.Pattern[str] | None = None

    @classmethod
    def from_worker(cls, props: Mapping[str, str]) -> ReferencePolicy:
        """The policy of a worker's configuration."""
        pattern = props.get(ENV_PATTERN)
        return cls(
            _roots(props.get(_ALLOWED.format("file"), "")),
            _roots(props.get(_ALLOWED.format("dir"), "")),
            None if pattern is None else re.compile(pattern),
        )

    def check(self, setting: str, value: str) -> None:
        """Whether everything that a value refers to may be read.

        Raises:
            ConfigError: `REFERENCE_NOT_ALLOWED`, `UNKNOWN_PROVIDER`.
        """
        for provider, path, key in references(value):
            if provider == "env":
                if self.env_pattern is None or not self.env_pattern.fullmatch(key):
                    raise _refused(setting, f"${{env:{key}}}", ENV_PATTERN, "a regular expression of names")
            elif provider in ("file", "dir"):
                roots = self.file_roots if provider == "file" else self.dir_roots
                real = Path(path).expanduser().resolve()
                if not any(real == root or root in real.parents for root in roots):
                    raise _refused(
                        setting, f"${{{provider}:{path}:{key}}}", _ALLOWED.format(provider), "folders, comma-separated"
                    )
            else:
                raise ConfigError(
                    "UNKNOWN_PROVIDER",
                    f"{setting} refers to a provider {provider!r}; there are ${{file:PATH:KEY}}, ${{dir:PATH:FILE}} "
                    "and ${env:NAME}",
                    setting=setting,
                )

    def resolved(self, props: Mapping[str, str]) -> dict[str, str]:
        """A configuration with references replaced by what they refer to.

        Raises:
            ConfigError: as `check`; `SECRET_NOT_FOUND`.
        """
        for setting, value in props.items():
            self.check(setting, value)
        return {setting: resolve(setting, value) for setting, value in props.items()}


def with_references(config: Mapping[str, str], props: Mapping[str, str], resolved: Mapping[str, str]) -> dict[str, str]:
    """A configuration that was made of a resolved one, with the references in place of what they refer to.

    Args:
        config: of a task.
        props: of its connector, with references.
        resolved: the same without.

    Example:
        >>> with_references({"password": "x", "task": "0"}, {"password": "${env:P}"}, {"password": "x"})
        {'password': '${env:P}', 'task': '0'}
    """
    return {
        name: props[name] if name in props and resolved.get(name) == value else value for name, value in config.items()
    }


def _roots(text: str) -> tuple[Path, ...]:
    return tuple(Path(each.strip()).expanduser().resolve() for each in text.split(",") if each.strip())


def _refused(setting: str, reference: str, key: str, what: str) -> ConfigError:
    return ConfigError(
        "REFERENCE_NOT_ALLOWED",
        f"{setting} refers to {reference}, which the worker may not read for connectors; {key} of the worker says what "
        f"it may ({what})",
        setting=setting,
    )
