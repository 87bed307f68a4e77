"""Functions of JSON, URLs and regular expressions."""

from __future__ import annotations

from decimal import Decimal

import pytest
from tests.unit.sql.functions.evaluation import evaluate

from hayase.sql.errors import FunctionError
from hayase.sql.types.sql_types import DOUBLE, STRING, ArrayType, DecimalType, MapType, SqlType, StructType


def of_text(function: str, text: str | None) -> object:
    return evaluate(function, {"T": text}, {"T": STRING})


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("$.a.b[1]", "2"),
        ("$.a", '{"b":[1,2],"c d":"x"}'),
        ("$['a']['c d']", "x"),
        ('$["a"].b[0]', "1"),
        ("$.n", "null"),
        ("$.f", "1.50"),
        ("$.missing", None),
        ("$.a.b[7]", None),
        ("$.t.x", None),
        ("$", '{"a":{"b":[1,2],"c d":"x"},"n":null,"f":1.50,"t":"é\\n"}'),
    ],
)
def test_fields_are_extracted_by_path(path: str, value: str | None) -> None:
    text = '{"a": {"b": [1, 2], "c d": "x"}, "n": null, "f": 1.50, "t": "é\\n"}'
    row, columns = {"T": text, "P": path}, {"T": STRING, "P": STRING}
    assert evaluate("EXTRACTJSONFIELD(T, P)", row, columns) == value


@pytest.mark.parametrize(
    ("text", "path"), [("{", "$.a"), ("{} {}", "$.a"), ("{}", "a.b"), ("{}", "$..a"), ("[NaN]", "$")]
)
def test_bad_json_and_bad_paths_are_errors(text: str, path: str) -> None:
    with pytest.raises(FunctionError):
        evaluate("EXTRACTJSONFIELD(T, P)", {"T": text, "P": path}, {"T": STRING, "P": STRING})


@pytest.mark.parametrize(
    ("function", "text", "value"),
    [
        ("IS_JSON_STRING(T)", "[1]", True),
        ("IS_JSON_STRING(T)", "abc", False),
        ("IS_JSON_STRING(T)", "", False),
        ("IS_JSON_STRING(T)", None, False),
        ("JSON_ARRAY_LENGTH(T)", "[1, [2], null]", 3),
        ("JSON_ARRAY_LENGTH(T)", "{}", None),
        ("JSON_ARRAY_LENGTH(T)", "", None),
        ("JSON_KEYS(T)", '{"b": 1, "a": {"c": 2}}', ["b", "a"]),
        ("JSON_KEYS(T)", "[1]", None),
        ("JSON_RECORDS(T)", '{"a": "x", "b": [1, "y"], "c": null}', {"a": "x", "b": '[1,"y"]', "c": "null"}),
        ("JSON_ITEMS(T)", '[{"a": 1}, "x", 2.0]', ['{"a":1}', '"x"', "2.0"]),
        ("JSON_ITEMS(T)", "{}", None),
        ("JSON_ARRAY_CONTAINS(T, 'a')", '["a", "b"]', True),
        ("JSON_ARRAY_CONTAINS(T, 'a')", '[["a"]]', False),
        ("JSON_ARRAY_CONTAINS(T, 2)", "[1, 2]", True),
        ("JSON_ARRAY_CONTAINS(T, 2)", '["2", true]', False),
        ("JSON_ARRAY_CONTAINS(T, true)", "[1, true]", True),
        ("JSON_ARRAY_CONTAINS(T, 1.5E0)", "[1.5]", True),
        ("JSON_ARRAY_CONTAINS(T, NULL)", "[null]", True),
        ("JSON_ARRAY_CONTAINS(T, 'a')", "no JSON", False),
        ('JSON_CONCAT(T, \'{"a": 2, "c": 3}\')', '{"a": 1}', '{"a":2,"c":3}'),
        ("JSON_CONCAT(T, '[3]', '4')", "[1, 2]", "[1,2,3,4]"),
        ("JSON_CONCAT(T, '')", "[1]", None),
        ("JSON_CONCAT(T, '[1]')", None, None),
    ],
)
def test_json(function: str, text: str | None, value: object) -> None:
    assert of_text(function, text) == value


@pytest.mark.parametrize(
    ("type_", "value", "text"),
    [
        (DecimalType(6, 3), Decimal("1.500"), "1.500"),
        (DOUBLE, 1e10, "1.0E10"),
        (STRING, None, "null"),
        (STRING, 'a"b', '"a\\"b"'),
        (ArrayType(DOUBLE), [1.0, None], "[1.0,null]"),
        (
            StructType((("A", STRING), ("B", MapType(STRING, DOUBLE)))),
            {"A": "x", "B": {"k": 0.5}},
            '{"A":"x","B":{"k":0.5}}',
        ),
    ],
)
def test_values_become_json(type_: SqlType, value: object, text: str) -> None:
    assert evaluate("TO_JSON_STRING(V)", {"V": value}, {"V": type_}) == text


URL = "https://user@example.com:8080/a%20b/c?one=1&two&three=x%26y=z#part%201"


@pytest.mark.parametrize(
    ("function", "value"),
    [
        ("URL_EXTRACT_PROTOCOL(T)", "https"),
        ("URL_EXTRACT_HOST(T)", "example.com"),
        ("URL_EXTRACT_PORT(T)", 8080),
        ("URL_EXTRACT_PATH(T)", "/a b/c"),
        ("URL_EXTRACT_QUERY(T)", "one=1&two&three=x&y=z"),
        ("URL_EXTRACT_FRAGMENT(T)", "part 1"),
        ("URL_EXTRACT_PARAMETER(T, 'one')", "1"),
        ("URL_EXTRACT_PARAMETER(T, 'two')", ""),
        ("URL_EXTRACT_PARAMETER(T, 'four')", None),
    ],
)
def test_parts_of_a_url(function: str, value: object) -> None:
    assert of_text(function, URL) == value


@pytest.mark.parametrize(
    ("url", "host", "path"),
    [
        ("www.example.com", None, "www.example.com"),
        ("mailto:a@b.org", None, None),
        ("http://[::1]:80/x", "[::1]", "/x"),
        ("http://under_score.com/", None, "/"),
        ("//host/p", "host", "/p"),
    ],
)
def test_unusual_urls(url: str, host: str | None, path: str | None) -> None:
    assert of_text("URL_EXTRACT_HOST(T)", url) == host
    assert of_text("URL_EXTRACT_PATH(T)", url) == path


@pytest.mark.parametrize("url", ["http://a b", "http://h/%zz", "http://h/<a>", "1a:b", "http:", "http://[::1"])
def test_a_bad_url_is_an_error(url: str) -> None:
    with pytest.raises(FunctionError, match="URL"):
        of_text("URL_EXTRACT_HOST(T)", url)


def test_parameters_are_encoded_as_forms_are() -> None:
    assert of_text("URL_ENCODE_PARAM(T)", "?a b~*é") == "%3Fa+b%7E*%C3%A9"
    assert of_text("URL_DECODE_PARAM(T)", "%3Fa+b%7E*%C3%A9") == "?a b~*é"
    with pytest.raises(FunctionError, match="hexadecimal"):
        of_text("URL_DECODE_PARAM(T)", "100%")


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        ("test.", "a test_string", "test_"),
        (r"[a-z&&[^aeiou]]+", "aeist", "st"),
        (r"[a-c[x-z]]+", "mbyc", "byc"),
        (r"\p{Lu}\p{javaLowerCase}+", "über Äpfel", "Äpfel"),
        (r"\p{Alpha}+", "éab", "ab"),
        (r"(?<year>\d{4})-\k<year>", "1999-2000-2000", "2000-2000"),
        (r"\Qa.b\E+", "axb a.bbb", "a.bbb"),
        (r"x(?i)ab(?-i)c", "xABc", "xABc"),
        (r"a++b", "aab", "aab"),
        (r"(?<=a{1,3})b", "aab", "b"),
        (r"\d+", "٣12", "12"),
        (r"[\w.-]+@\w+", "to me@x", "me@x"),
        (r"(?x) a  b # comment", "ab", "ab"),
        (r"\x{1F600}", "a\U0001f600", "\U0001f600"),
        (r"c$", "abc\n", "c"),
        (r"^b", "a\nb", None),
        (r"(?m)^b$", "a\nb\nc", "b"),
        (r"a.c", "a\u2028c", None),
    ],
)
def test_regular_expressions_are_javas(pattern: str, text: str, found: str | None) -> None:
    row, columns = {"P": pattern, "T": text}, {"P": STRING, "T": STRING}
    assert evaluate("REGEXP_EXTRACT(P, T)", row, columns) == found


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("REGEXP_EXTRACT('(.*) (.*)', 'ada lovelace', 2)", "lovelace"),
        ("REGEXP_EXTRACT('(a)|(b)', 'b', 1)", None),
        ("REGEXP_EXTRACT_ALL('(\\w)(\\d)', 'a1 b2', 2)", ["1", "2"]),
        ("REGEXP_EXTRACT_ALL('x', 'abc')", []),
        ("REGEXP_REPLACE('baabbabaa', '(ab)+', 'cat')", "bacatbcataa"),
        ("REGEXP_REPLACE('ab', '(?<x>a)(b)', '$2${x}\\$')", "ba$"),
        ("REGEXP_SPLIT_TO_ARRAY('a1b22c', '\\d+')", ["a", "b", "c"]),
        ("REGEXP_SPLIT_TO_ARRAY('a,b,,', ',')", ["a", "b", "", ""]),
        ("REGEXP_SPLIT_TO_ARRAY('abc', '')", ["a", "b", "c"]),
        ("REGEXP_SPLIT_TO_ARRAY('aXbX', 'X*')", ["a", "", "b"]),
    ],
)
def test_regular_expressions_extract_replace_and_split(text: str, value: object) -> None:
    assert evaluate(text) == value


@pytest.mark.parametrize(
    "text",
    [
        "REGEXP_EXTRACT('(', 'a')",
        "REGEXP_EXTRACT('[a', 'a')",
        "REGEXP_EXTRACT('*', 'a')",
        "REGEXP_EXTRACT('\\y', 'a')",
        "REGEXP_EXTRACT('a', 'a', 1)",
        "REGEXP_REPLACE('a', 'a', '$1')",
        "REGEXP_REPLACE('a', 'a', '\\')",
    ],
)
def test_bad_regular_expressions_are_errors(text: str) -> None:
    with pytest.raises(FunctionError):
        evaluate(text)


@pytest.mark.long
def test_a_pattern_that_takes_too_long_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hayase.sql.functions.scalar.regex._MATCH_S", 0.05)
    for call in ("REGEXP_EXTRACT('(a|aa|a.)+$', T)", "REGEXP_REPLACE(T, '(a|aa|a.)+$', '')"):
        with pytest.raises(FunctionError, match="TOO_SLOW"):
            of_text(call, "a" * 60 + "\nb")


def test_half_a_surrogate_of_a_json_text_becomes_a_question_mark() -> None:
    assert of_text("EXTRACTJSONFIELD(T, '$.a')", '{"a": "x\\ud800y"}') == "x?y"
    assert of_text("EXTRACTJSONFIELD(T, '$.a')", '{"a": "\\ud83d\\ude00"}') == "\U0001f600"


def test_a_number_with_a_huge_exponent_is_not_written_out() -> None:
    with pytest.raises(FunctionError, match="digits"):
        of_text("EXTRACTJSONFIELD(T, '$.a')", '{"a": 1e400000000}')
