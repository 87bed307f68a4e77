"""Write docs/sql/functions.md from the declarations of SQL's functions: `python scripts/functions_page.py`."""

from __future__ import annotations

import importlib
import pkgutil
import textwrap
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from hayase.sql.expressions.rows import compile_row
from hayase.sql.functions.declarations import Declaration, declared_in
from hayase.sql.functions.registry import default_registry
from hayase.sql.grammar.parser import parse_expression
from hayase.sql.types.json_text import json_text

PAGE = Path(__file__).resolve().parent.parent / "docs" / "sql" / "functions.md"

_HEAD = """# Functions

Made by `scripts/functions_page.py` from the declarations in
[`hayase.sql.functions`](../../src/hayase/sql/functions); the results of the examples are computed, and shown as JSON.

Names are written in any case. `T`, `K` and `V` are any types, the same wherever they stand in a signature; `…` after a
type means any number of such arguments; `ANY` is any type; a result `?` has a type that depends on the arguments, such
as a DECIMAL of more digits; `UNIT` is `DAYS`, `HOURS`, `MINUTES`, `SECONDS` or `MILLISECONDS`, without
quotes; a lambda is written `(x, y) => x + y`. An argument becomes a wider type if need be: INT, BIGINT, DECIMAL,
DOUBLE, and text becomes a date or time. Unless a function says otherwise, a null argument gives null. What a function
refuses, such as a text that is no date, gives null too, and a record in the processing log.

Patterns of dates are those of Java's `DateTimeFormatter`, regular expressions are those of `java.util.regex.Pattern`.
"""

EXAMPLES = """
ABS(-3.5)
CEIL(1.2)
FLOOR(-1.2)
ROUND(2.5E0)
TRUNC(-2.75, 1)
SIGN(-7)
SQRT(2)
CBRT(27)
EXP(1)
LN(10)
LOG(2, 8)
POWER(2, 10)
SIN(1)
COS(1)
TAN(1)
COT(1)
SINH(1)
COSH(1)
TANH(1)
ASIN(1)
ACOS(1)
ATAN(1)
ATAN2(1, 2)
DEGREES(1)
RADIANS(180)
PI()
GEO_DISTANCE(37.4439, -122.1663, 51.5257, -0.1122)
GREATEST(1, 3, NULL)
LEAST('b', 'a')
LCASE('ABC')
UCASE('abc')
INITCAP('the quick fox')
TRIM('  a b ')
LEN('abc')
CHR(8364)
CONCAT('a', NULL, 'b')
CONCAT_WS('-', 'a', 'b')
ELT(2, 'a', 'b')
FIELD('b', 'a', 'b')
INSTR('corporate floor', 'or', 3)
LPAD('7', 3, '0')
RPAD('ab', 4, '.')
REPLACE('banana', 'an', 'o')
SPLIT('a,b', ',')
SPLIT_TO_MAP('a:1;b:2', ';', ':')
SUBSTRING('stream', -3, 2)
MASK('Ada 1815!')
MASK_LEFT('4111-1111', 4)
MASK_RIGHT('4111-1111', 4)
MASK_KEEP_LEFT('4111-1111', 4)
MASK_KEEP_RIGHT('4111-1111', 4)
ENCODE('Example', 'utf8', 'base64')
TO_BYTES('4578', 'hex')
FROM_BYTES(TO_BYTES('4578', 'hex'), 'utf8')
INT_FROM_BYTES(TO_BYTES('000007E5', 'hex'))
BIGINT_FROM_BYTES(TO_BYTES('00000000000007E5', 'hex'))
DOUBLE_FROM_BYTES(TO_BYTES('3FF8000000000000', 'hex'))
MD5('abc')
REGEXP_EXTRACT('(\\w+)@(\\w+)', 'ada@example', 2)
REGEXP_EXTRACT_ALL('\\d+', '1 and 22')
REGEXP_REPLACE('2018-05', '(\\d+)-(\\d+)', '$2/$1')
REGEXP_SPLIT_TO_ARRAY('a1b22c', '\\d+')
EXTRACTJSONFIELD('{"a": [1, {"b": "x"}]}', '$.a[1].b')
IS_JSON_STRING('[1')
JSON_ARRAY_CONTAINS('[1, 2]', 2)
JSON_ARRAY_LENGTH('[1, 2]')
JSON_CONCAT('{"a": 1}', '{"b": 2}')
JSON_ITEMS('[1, {"a": 2}]')
JSON_KEYS('{"a": 1}')
JSON_RECORDS('{"a": 1}')
TO_JSON_STRING(ARRAY[1, 2])
ARRAY_LENGTH(ARRAY[1, 2])
ARRAY_CONTAINS(ARRAY[1, 2], 2)
ARRAY_DISTINCT(ARRAY[2, 1, 2])
ARRAY_CONCAT(ARRAY[1], ARRAY[1, 2])
ARRAY_UNION(ARRAY[1, 2], ARRAY[3, 2])
ARRAY_INTERSECT(ARRAY[1, 2], ARRAY[3, 2])
ARRAY_EXCEPT(ARRAY[1, 2], ARRAY[3, 2])
ARRAY_REMOVE(ARRAY[1, 2, 1], 1)
ARRAY_MAX(ARRAY[1, NULL, 3])
ARRAY_MIN(ARRAY[1, NULL, 3])
ARRAY_SORT(ARRAY[2, NULL, 3], 'DESC')
ARRAY_JOIN(ARRAY[1, 2], '+')
SLICE(ARRAY[1, 2, 3, 4], 2, 3)
AS_MAP(ARRAY['a', 'b'], ARRAY[1, 2])
GENERATE_SERIES(1, 7, 3)
MAP_KEYS(MAP('a' := 1))
MAP_VALUES(MAP('a' := 1))
MAP_UNION(MAP('a' := 1), MAP('a' := 2, 'b' := 3))
ENTRIES(MAP('b' := 1, 'a' := 2), true)
FILTER(ARRAY[1, 2, 3], x => x > 1)
TRANSFORM(ARRAY[1, 2], x => x * 10)
REDUCE(ARRAY[1, 2, 3], 0, (sum, x) => sum + x)
COALESCE(NULL, 'b', 'c')
IFNULL(CAST(NULL AS INT), 4)
NULLIF('n/a', 'n/a')
AS_VALUE(1)
DATEADD(DAYS, 3, '2018-05-11')
DATESUB(DAYS, 3, '2018-05-11')
TIMEADD(HOURS, 3, '22:30')
TIMESUB(HOURS, 3, '22:30')
TIMESTAMPADD(MINUTES, 5, '2018-05-11T21:58:33')
TIMESTAMPSUB(MINUTES, 5, '2018-05-11T21:58:33')
FORMAT_DATE('2018-05-11', 'EEE, d MMM yyyy')
FORMAT_TIME('13:05', 'h:mm a')
FORMAT_TIMESTAMP('2018-05-11T21:58:33', 'yyyy-MM-dd HH:mm zzz', 'America/Los_Angeles')
PARSE_DATE('11.5.2018', 'd.M.yyyy')
PARSE_TIME('1:05 PM', 'h:mm a')
PARSE_TIMESTAMP('2018-05-11 21:58+02', 'yyyy-MM-dd HH:mmX')
CONVERT_TZ('2018-05-11T21:58:33', 'Europe/Paris', 'Asia/Tokyo')
FROM_DAYS(17662)
FROM_UNIXTIME(1526075913000)
DATETOSTRING(17662, 'yyyy/MM/dd')
STRINGTODATE('2018/05/11', 'yyyy/MM/dd')
TIMESTAMPTOSTRING(1526075913000, 'HH:mm')
STRINGTOTIMESTAMP('2018-05-11', 'yyyy-MM-dd')
URL_ENCODE_PARAM('a b&c')
URL_DECODE_PARAM('a+b%26c')
URL_EXTRACT_FRAGMENT('http://example.com/p?a=1#top')
URL_EXTRACT_HOST('http://example.com:8080/p')
URL_EXTRACT_PARAMETER('http://example.com/?a=1&b=2', 'b')
URL_EXTRACT_PATH('http://example.com/p?a=1')
URL_EXTRACT_PORT('http://example.com:8080/p')
URL_EXTRACT_PROTOCOL('http://example.com')
URL_EXTRACT_QUERY('http://example.com/p?a=1')
"""
"""One example of each function whose result is always the same."""


def _modules(package: str) -> Iterator[str]:
    path = importlib.import_module(package).__path__
    for module in sorted(pkgutil.iter_modules(path), key=lambda module: module.name):
        yield f"{package}.{module.name}"


def _examples() -> dict[str, str]:
    registry = default_registry()
    found: dict[str, str] = {}
    for line in EXAMPLES.strip().splitlines():
        expression = compile_row(parse_expression(line), {}, registry)
        found[line.partition("(")[0]] = f"`{line}` is `{json_text(expression({}), expression.type)}`"
    return found


def _unique(texts: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(texts))


def _row(*cells: str) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"


def _family(title: str, declarations: Iterable[Declaration], examples: dict[str, str]) -> str:
    by_name: dict[str, list[Declaration]] = {}
    for declaration in declarations:
        by_name.setdefault(declaration.name.upper(), []).append(declaration)
    columns = ("function", "signatures", "what it gives", "example")[: 4 if examples else 3]
    out = [f"\n### {title.rstrip('.')}\n\n", _row(*columns), _row(*["---"] * len(columns)).replace(" ", "")]
    for name, overloads in sorted(by_name.items()):
        signatures = "<br>".join(f"`{overload.text.replace('...', '…')}`" for overload in overloads)
        described = " ".join(_unique(overload.description for overload in overloads))
        if any(overload.null_aware for overload in overloads):
            described += " A null argument does not make it null."
        cells = [f"`{name}`", signatures, described, examples.get(name, "")]
        out.append(_row(*cells[: len(columns)]))
    return "".join(out)


_SCALARS = """
Expressions of these functions are computed for whole columns, those of others row by row, which takes longer:
{columns}.
"""
_AGGREGATES = """
They stand in a query with `GROUP BY`. An argument with `!` is a literal. On tables, where values are taken back, only
these are possible: {undo}.
"""
_TABLE_FUNCTIONS = """
They stand in the `SELECT` list of a query over a stream and give several rows for one.
"""


def page() -> str:
    """The page."""
    out = [_HEAD]
    examples = _examples()
    for title, folder, text in (
        ("Scalar functions", "scalar", _SCALARS),
        ("Aggregate functions", "aggregate", _AGGREGATES),
        ("Table functions", "table", _TABLE_FUNCTIONS),
    ):
        package = f"hayase.sql.functions.{folder}"
        out.append(f"\n## {title}\n")
        names = {"undo": _names(package, _can_undo), "columns": _names(package, _has_columns)}
        out.append("\n" + textwrap.fill(" ".join(text.format(**names).split()), 120) + "\n")
        for module in _modules(package):
            summary = (importlib.import_module(module).__doc__ or "").partition("\n")[0]
            if declarations := declared_in(module):
                out.append(_family(summary, declarations, examples if folder == "scalar" else {}))
    return "".join(out)


def _can_undo(declaration: Declaration) -> bool:
    return hasattr(declaration.target, "undo")


def _has_columns(declaration: Declaration) -> bool:
    return declaration.columns is not None


def _names(package: str, chosen: Callable[[Declaration], bool]) -> str:
    """The names of the functions that are chosen."""
    declarations = [declaration for module in _modules(package) for declaration in declared_in(module)]
    names = _unique(sorted(declaration.name.upper() for declaration in declarations if chosen(declaration)))
    return ", ".join(f"`{name}`" for name in names)


def main() -> None:
    """Writes the page."""
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
