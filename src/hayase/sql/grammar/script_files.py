"""Files of scripts."""

from __future__ import annotations

from pathlib import Path

from hayase.core.errors import ConfigError


def script_text(file: Path) -> str:
    """The text of a script, with line ends of Unix, and without a mark of UTF-8 at its beginning.

    Raises:
        OSError: the file cannot be read.
        ConfigError: `SCRIPT_NOT_UTF8`.
    """
    try:
        return file.read_text("utf-8-sig")
    except UnicodeDecodeError as error:
        data: bytes = error.object
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigError(
            "SCRIPT_NOT_UTF8",
            f"{file}, line {line}: the byte 0x{data[error.start]:02x} is not UTF-8, as scripts have to be; save "
            "the file as UTF-8",
        ) from error
