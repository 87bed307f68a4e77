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
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from hayase.core.errors import ConfigError
from hayase.sql.functions.registry import FunctionRegistry
from hayase.sql.grammar.script_files import script_text
from hayase.sql.grammar.tokens import comments_and_others
from hayase.testing.sql.expected_errors import check_class, unexpected
from hayase.testing.sql.script import SqlScript

_DIRECTIVE = re.compile(r"--\s*@\s*([A-Za-z._-]*)\s*:?\s*(.*?)\s*")
_MEANT = re.compile(r"--\s*@\s*(test|expected)")
"""How a directive begins, and what only differs from one by spaces."""
_KNOWN = ("test", "expected.error", "expected.message")


class Directive(NamedTuple):
    """A line `--@name: argument`.

    Attributes:
        start: its position in the file's text.
    """

    start: int
    name: str
    argument: str


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

    A directive ends with its line, and is none within a text in quotes or a comment in `/* */`, as in ksqlDB.

    Raises:
        ConfigError: the file cannot be read; a directive is unknown, stands twice in one test, or names an error that
            neither ksqlDB nor Hayase has; something stands before the first `--@test`.
    """
    try:
        text = script_text(file)
    except OSError as error:
        raise ConfigError("FILE_NOT_READABLE", f"cannot read {file}: {error}") from error
    directives = list(_directives(file, text))
    starts = [each.start for each in directives if each.name == "test"]
    if starts:
        _check_nothing_before(file, text, starts[0])
    bounds = [*(starts or [0]), len(text)]
    for start, end in pairwise(bounds):
        yield _test(file, text, start, end, [each for each in directives if start <= each.start < end])


def _directives(file: Path, text: str) -> Iterator[Directive]:
    for start, token in comments_and_others(text):
        found = _DIRECTIVE.fullmatch(token) if token.startswith("--@") or _MEANT.match(token) else None
        if found is None:
            continue
        name, argument = found.groups()
        at = f"{file}, line {_line(text, start)}"
        if name not in _KNOWN or not token.startswith(f"--@{name}"):
            known = ", ".join(f"--@{each}" for each in _KNOWN)
            raise ConfigError("UNKNOWN_DIRECTIVE", f"{at}: {token.strip():.60} is no directive; there are {known}")
        if not argument and name != "expected.error":
            raise ConfigError("DIRECTIVE_WITHOUT_TEXT", f"{at}: --@{name} says nothing; write --@{name}: and its text")
        if name == "expected.error":
            check_class(argument, at)
        yield Directive(start, name, argument)


def _check_nothing_before(file: Path, text: str, first_test: int) -> None:
    for start, token in comments_and_others(text[:first_test]):
        if not token.startswith(("--", "/*")) or token.startswith("--@"):
            raise ConfigError(
                "BEFORE_FIRST_TEST",
                f"{file}, line {_line(text, start)}: this stands before the first --@test, at line "
                f"{_line(text, first_test)}, and belongs to no test; only comments can stand there. Move it into the "
                "tests that need it, or into a file that they RUN SCRIPT",
            )


def _line(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1


def _test(file: Path, text: str, start: int, end: int, directives: Sequence[Directive]) -> SqlTest:
    found: dict[str, str] = {}
    for directive in directives:
        if directive.name in found:
            at = f"{file}, line {_line(text, directive.start)}"
            raise ConfigError("DIRECTIVE_TWICE", f"{at}: the test has --@{directive.name} before; give it once")
        found[directive.name] = directive.argument
    line = _line(text, start)
    return SqlTest(
        file=file,
        line=line,
        name=found.get("test", file.stem),
        text="\n" * (line - 1) + text[start:end],
        error=found.get("expected.error"),
        message=found.get("expected.message"),
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
