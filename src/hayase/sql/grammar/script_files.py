"""Files of scripts."""

from __future__ import annotations

from pathlib import Path

from hayase.core.errors import ConfigError

SCRIPT_BYTES_MAX = 64 * 1024 * 1024
"""Of one file: a script of 100,000 statements has some 10 MB; a device such as /dev/zero never ends."""


def script_text(file: Path) -> str:
    """The text of a script, with line ends of Unix, and without a mark of UTF-8 at its beginning.

    Raises:
        OSError: the file cannot be read.
        ConfigError: `SCRIPT_NOT_UTF8`, or `SCRIPT_TOO_LARGE`.
    """
    with file.open("rb") as stream:
        data = stream.read(SCRIPT_BYTES_MAX + 1)
    if len(data) > SCRIPT_BYTES_MAX:
        raise ConfigError(
            "SCRIPT_TOO_LARGE",
            f"{file} has more than {SCRIPT_BYTES_MAX:,} bytes, which is the limit of a script; split it",
        )
    try:
        return data.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigError(
            "SCRIPT_NOT_UTF8",
            f"{file}, line {line}: the byte 0x{data[error.start]:02x} is not UTF-8, as scripts have to be; save "
            "the file as UTF-8",
        ) from error
