"""Properties files as Java reads them: `key=value`, comments, escapes, lines that go on."""

from __future__ import annotations

import re
from collections.abc import Iterator

from hayase.core.errors import ConfigError

_SEPARATOR = re.compile(r"(?<!\\)(?:\\\\)*(?P<sign>[=:])")
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.?)", re.DOTALL)
_CONTROL = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def parse_properties(text: str, where: str) -> dict[str, str]:
    r"""The settings of a properties file.

    As `java.util.Properties` reads it, with one exception: a line needs `=` or `:`, so that a slip is not taken for an
    empty value.

    Args:
        text: of the file.
        where: what the file is called in errors.

    Raises:
        ConfigError: `INVALID_SETTING`: a line is no setting. The line itself is not shown: it may hold a secret.

    Example:
        >>> parse_properties("# ours\nacks = all\nnames: a,\\\n    b\npath=C\\:\\\\x\n", "a file")
        {'acks': 'all', 'names': 'a,b', 'path': 'C:\\x'}
    """
    properties: dict[str, str] = {}
    for number, line in _logical_lines(text):
        separator = _SEPARATOR.search(line)
        if separator is None or separator.start("sign") == 0:
            raise ConfigError("INVALID_SETTING", f"{where}, line {number}: this is not key=value")
        place = separator.start("sign")
        properties[_plain(line[:place].rstrip())] = _plain(line[place + 1 :].lstrip())
    return properties


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines without comments, those that end with a backslash joined with the next; each with its number."""
    begun: list[str] = []
    first = 0
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.lstrip()
        if not begun and (not line or line[0] in "#!"):
            continue
        first = first if begun else number
        trailing = len(line) - len(line.rstrip("\\"))
        if trailing % 2:
            begun.append(line[:-1])
            continue
        yield first, "".join([*begun, line]).rstrip()
        begun = []
    if begun:
        yield first, "".join(begun).rstrip()


def _plain(text: str) -> str:
    def one(escape: re.Match[str]) -> str:
        code = escape.group(1)
        return chr(int(code[1:], 16)) if len(code) == 5 else _CONTROL.get(code, code)

    return _ESCAPE.sub(one, text)
