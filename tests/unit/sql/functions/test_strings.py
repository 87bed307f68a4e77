"""Functions of texts and bytes."""

from __future__ import annotations

import pytest
from tests.unit.sql.functions.evaluation import evaluate

from hayase.sql.errors import FunctionError
from hayase.sql.types.sql_types import BYTES, INTEGER, STRING

WIDE = "a\U0001f600b"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("LCASE('ÀB')", "àb"),
        ("UCASE('aß')", "ASS"),
        ("INITCAP('the   qUICK br0wn_fox')", "The   Quick Br0wn_fox"),
        ("TRIM('  \t a b ')", "a b"),
        ("LEN('abc')", 3),
        ("LEN(TO_BYTES('é', 'utf8'))", 2),
        ("CHR(8364)", "€"),
        ("CHR(1114112)", None),
        ("CHR('\\u004b')", "K"),
        ("CHR('\\ud83d\\ude00')", "\U0001f600"),
        ("CHR('75')", None),
        ("CONCAT('a', NULL, 'b')", "ab"),
        ("CONCAT_WS('-', 'a', NULL, 'b')", "a-b"),
        ("CONCAT_WS(CAST(NULL AS STRING), 'a')", None),
        ("ELT(2, 'a', 'b')", "b"),
        ("ELT(3, 'a', 'b')", None),
        ("FIELD('b', 'a', 'b')", 2),
        ("FIELD(NULL, 'a')", 0),
        ("REPLACE('anaconda', 'a', 'o')", "onocondo"),
        ("SPLIT('a,b,,', ',')", ["a", "b", "", ""]),
        ("SPLIT('ab', '')", ["a", "b"]),
        ("SPLIT('', '')", [""]),
        ("SPLIT_TO_MAP('a=1;b=2=3;;c;a=4', ';', '=')", {"a": "4", "b": "2"}),
        ("SPLIT_TO_MAP('a=1', '', '=')", None),
        ("LPAD('foo', 7, 'Bar')", "BarBfoo"),
        ("RPAD('foo', 7, 'Bar')", "fooBarB"),
        ("LPAD('foo', 2, 'Bar')", "fo"),
        ("LPAD('foo', -1, 'Bar')", None),
        ("RPAD('foo', 5, '')", None),
        ("SUBSTRING('stream', 3)", "ream"),
        ("SUBSTRING('stream', -3)", "eam"),
        ("SUBSTRING('stream', -9)", "stream"),
        ("SUBSTRING('stream', 0, 2)", "st"),
        ("SUBSTRING('stream', 5, 9)", "am"),
        ("SUBSTRING('stream', 9)", ""),
        ("SUBSTRING('stream', 3, -1)", ""),
        ("INSTR('corporate floor', 'or')", 2),
        ("INSTR('corporate floor', 'or', 3)", 5),
        ("INSTR('corporate floor', 'or', 3, 2)", 14),
        ("INSTR('corporate floor', 'or', -3)", 5),
        ("INSTR('corporate floor', 'or', -3, 2)", 2),
        ("INSTR('corporate floor', 'or', 1, 9)", 0),
        ("INSTR('aaa', 'aa', 1, 2)", 2),
        ("INSTR(CAST(NULL AS STRING), 'a')", 0),
        ("INSTR('a', 'a', 0)", 0),
    ],
)
def test_texts(text: str, value: object) -> None:
    assert evaluate(text) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("LEN(T)", 4),
        ("SUBSTRING(T, 4)", "b"),
        ("SUBSTRING(T, 2, 2)", "\U0001f600"),
        ("SUBSTRING(T, 2, 1)", "?"),
        ("INSTR(T, 'b')", 4),
        ("LPAD(T, 5, 'x')", "x" + WIDE),
        ("UCASE(T)", "A\U0001f600B"),
        ("MASK(T)", "x--x"),
    ],
)
def test_a_character_beyond_the_basic_plane_counts_twice(text: str, value: object) -> None:
    assert evaluate(text, {"T": WIDE}, {"T": STRING}) == value


def test_the_legacy_setting_makes_substring_count_from_zero_to_an_end() -> None:
    settings = {"ksql.functions.substring.legacy.args": True}
    assert evaluate("SUBSTRING('stream', 1, 3)", settings=settings) == "tr"
    assert evaluate("SUBSTRING('stream', 1)", settings=settings) == "tream"
    with pytest.raises(FunctionError, match="out of range"):
        evaluate("SUBSTRING('stream', 7)", settings=settings)


def test_padding_has_a_limit() -> None:
    with pytest.raises(FunctionError, match="at most"):
        evaluate("LPAD('a', 2147483647, 'b')")


@pytest.mark.parametrize(
    "text", ["LCASE(T)", "LEN(T)", "LPAD(T, 2, 'x')", "LPAD('x', N, 'x')", "SUBSTRING(T, 1)", "MASK(T)", "MD5(T)"]
)
def test_null_gives_null(text: str) -> None:
    assert evaluate(text, {"T": None, "N": None}, {"T": STRING, "N": INTEGER}) is None


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("MASK('Fox in 7 Days!')", "Xxx-xx-n-Xxxx-"),
        ("MASK('aB1 ', NULL, 'y', '9', NULL)", "yB9 "),
        ("MASK_LEFT('Credit 42', 3)", "Xxxdit 42"),
        ("MASK_RIGHT('Credit 42', 3)", "Credit-nn"),
        ("MASK_KEEP_LEFT('Credit 42', 2)", "Crxxxx-nn"),
        ("MASK_KEEP_RIGHT('Credit 42', 2)", "Xxxxxx-42"),
        ("MASK_LEFT('ab', 9)", "xx"),
        ("MASK_KEEP_LEFT('Ab1', 1, 'U', 'l', 'd', 'o')", "Ald"),
    ],
)
def test_masks(text: str, value: str) -> None:
    assert evaluate(text) == value


def test_a_negative_number_of_characters_cannot_be_masked() -> None:
    with pytest.raises(FunctionError, match="from 0 on"):
        evaluate("MASK_RIGHT('abc', -1)")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("ENCODE('4578616d706C6521', 'hex', 'ascii')", "Example!"),
        ("ENCODE('0x578616d706C6521', 'hex', 'ascii')", "\x05xample!"),
        ("ENCODE('X''4578''', 'hex', 'utf8')", "Ex"),
        ("ENCODE('0x', 'hex', 'base64')", ""),
        ("ENCODE('ce95', 'hex', 'ascii')", "\ufffd\ufffd"),
        ("ENCODE('é', 'utf8', 'hex')", "c3a9"),
        ("ENCODE('é', 'ascii', 'hex')", "3f"),
        ("ENCODE('RXg', 'base64', 'utf8')", "Ex"),
        ("ENCODE('_-_-', 'base64', 'hex')", "ffeffe"),
        ("FROM_BYTES(TO_BYTES('ab', 'ascii'), 'hex')", "6162"),
        ("FROM_BYTES(TO_BYTES('0aff', 'hex'), 'hex')", "0AFF"),
        ("FROM_BYTES(TO_BYTES('RXg=', 'base64'), 'utf8')", "Ex"),
        ("INT_FROM_BYTES(TO_BYTES('000007E5', 'hex'))", 2021),
        ("INT_FROM_BYTES(TO_BYTES('E5070000', 'hex'), 'LITTLE_ENDIAN')", 2021),
        ("INT_FROM_BYTES(TO_BYTES('FFFFFFFF', 'hex'))", -1),
        ("BIGINT_FROM_BYTES(TO_BYTES('0000000000000001', 'hex'))", 1),
        ("DOUBLE_FROM_BYTES(TO_BYTES('3FF0000000000000', 'hex'))", 1.0),
        ("MD5('abc')", "900150983cd24fb0d6963f7d28e17f72"),
        ("UUID(TO_BYTES('000102030405060708090a0b0c0d0e0f', 'hex'))", "00010203-0405-0607-0809-0a0b0c0d0e0f"),
        ("UUID(TO_BYTES('00', 'hex'))", None),
    ],
)
def test_encodings(text: str, value: object) -> None:
    assert evaluate(text) == value


@pytest.mark.parametrize(
    "text",
    [
        "ENCODE('578', 'hex', 'ascii')",
        "ENCODE('X''57', 'hex', 'ascii')",
        "ENCODE('X''', 'hex', 'ascii')",
        "ENCODE('0x0x', 'hex', 'ascii')",
        "ENCODE('a', 'utf8', 'utf8')",
        "ENCODE('a', 'utf7', 'hex')",
        "TO_BYTES('a!', 'base64')",
        "INT_FROM_BYTES(TO_BYTES('00', 'hex'))",
        "INT_FROM_BYTES(TO_BYTES('00000000', 'hex'), 'MIDDLE')",
    ],
)
def test_what_cannot_be_encoded_is_an_error(text: str) -> None:
    with pytest.raises(FunctionError):
        evaluate(text)


def test_bytes_are_padded_cut_and_joined_like_texts() -> None:
    row, columns = {"B": b"yes", "P": b"no", "E": b""}, {"B": BYTES, "P": BYTES, "E": BYTES}
    assert evaluate("LPAD(B, 8, P)", row, columns) == b"nononyes"
    assert evaluate("RPAD(B, 5, P)", row, columns) == b"yesno"
    assert evaluate("LPAD(B, 0, P)", row, columns) == b""
    assert evaluate("LPAD(B, 5, E)", row, columns) is None
    assert evaluate("SUBSTRING(B, 2, 1)", row, columns) == b"e"
    assert evaluate("CONCAT(B, NULL, P)", row, columns) == b"yesno"
    assert evaluate("CONCAT_WS(P, B, B)", row, columns) == b"yesnoyes"
    assert evaluate("SPLIT(B, E)", row, columns) == [b"y", b"e", b"s"]


def test_random_identifiers_differ() -> None:
    assert evaluate("UUID()") != evaluate("UUID()")
