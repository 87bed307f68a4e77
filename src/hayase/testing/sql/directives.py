"""Files of tests in SQL: statements under directives.

```sql
--@test: orders above ten euros
CREATE STREAM …;
ASSERT VALUES …;

--@test: unknown stream
--@expected.error: io.confluent.ksql.util.KsqlException
--@expected.message: does not exist
CREATE STREAM b AS SELECT * FROM a;
```
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from hayase.core.errors import ConfigError
from hayase.sql.functions.registry import FunctionRegistry
from hayase.sql.grammar.script_files import script_text
from hayase.testing.sql.expected_errors import unexpected
from hayase.testing.sql.script import SqlScript

_DIRECTIVE = re.compile(r"^--@([A-Za-z.]+)\s*:?\s*(.*?)\s*$", re.MULTILINE)
_KNOWN = ("test", "expected.error", "expected.message")


@dataclass(frozen=True, slots=True)
class SqlTest:
    """One test of a file.

    Attributes:
        file: where it is.
        line: of its first line.
        name: as the directive says, or the file's where it has none.
        text: its statements, behind as many line ends as the file has before them: positions are the file's.
        error: class of the error that it must end with, by ksqlDB's or Hayase's name; `None`: not checked.
        message: a part of that error's message.
    """

    file: Path
    line: int
    name: str
    text: str
    error: str | None = None
    message: str | None = None

    @property
    def expects_error(self) -> bool:
        """Whether it must fail."""
        return self.error is not None or self.message is not None


def files_in(path: Path) -> list[Path]:
    """The `.sql` files of a folder and those below it, or the one file.

    Raises:
        ConfigError: there is none.
    """
    files = sorted(path.rglob("*.sql")) if path.is_dir() else [path] if path.is_file() else []
    if not files:
        what = "there is no .sql file in it" if path.is_dir() else "there is no such file or folder"
        raise ConfigError("NO_TESTS", f"{path}: {what}; give a .sql file, or a folder with .sql files")
    return files


def tests_of(file: Path) -> Iterator[SqlTest]:
    """The tests of a file, in order; a file without `--@test` is one test.

    Raises:
        ConfigError: it cannot be read, or a directive is unknown.
    """
    try:
        text = script_text(file)
    except OSError as error:
        raise ConfigError("FILE_NOT_READABLE", f"cannot read {file}: {error}") from error
    directives = list(_DIRECTIVE.finditer(text))
    for directive in directives:
        if directive[1] not in _KNOWN:
            line = text.count("\n", 0, directive.start()) + 1
            known = ", ".join(f"--@{name}" for name in _KNOWN)
            raise ConfigError("UNKNOWN_DIRECTIVE", f"{file}, line {line}: --@{directive[1]} is unknown; known: {known}")
    starts = [directive for directive in directives if directive[1] == "test"]
    if not starts:
        yield _test(file, text, 0, len(text), file.stem)
    ends = [following.start() for following in starts[1:]] + [len(text)]
    for start, end in zip(starts, ends, strict=False):
        yield _test(file, text, start.start(), end, start[2])


def _test(file: Path, text: str, start: int, end: int, name: str) -> SqlTest:
    part = text[start:end]
    found = {directive[1]: directive[2] for directive in _DIRECTIVE.finditer(part)}
    line = text.count("\n", 0, start) + 1
    return SqlTest(
        file, line, name, "\n" * (line - 1) + part, found.get("expected.error"), found.get("expected.message")
    )


class SqlTestFailure(NamedTuple):
    """Why a test fails.

    Attributes:
        line: of the statement that ended it, in the test's file; of the test if none did.
        reason: what is wrong.
    """

    line: int
    reason: str


def failure_of(
    test: SqlTest, settings: Mapping[str, object] | None = None, functions: FunctionRegistry | None = None
) -> SqlTestFailure | None:
    """Why a test fails; `None` if it passes."""
    script = SqlScript(settings, functions, test.file.parent)
    try:
        with script:
            script.run(test.text)
    except Exception as error:  # whatever ends the script is the answer
        if test.expects_error:
            reason = unexpected(error, test.error, test.message)
        else:
            reason = f"{type(error).__name__}: {error}"
        line = test.line if script.location is None else script.location.line
        return None if reason is None else SqlTestFailure(line, reason)
    if test.expects_error:
        expected = " with ".join(part for part in (test.error, test.message) if part)
        return SqlTestFailure(test.line, f"no error; expected {expected}")
    return None
