"""Properties files."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hayase.core.errors import ConfigError
from hayase.core.properties import parse_properties


def test_lines_that_end_with_a_backslash_go_on() -> None:
    text = 'sasl.jaas.config=Module required \\\n    username="ada" \\\n    password="x";\nacks=all\n'
    assert parse_properties(text, "f") == {
        "sasl.jaas.config": 'Module required username="ada" password="x";',
        "acks": "all",
    }


def test_escapes_are_those_of_java() -> None:
    assert parse_properties(r"a\:b\=c = \t\u00e9\\ \q", "f") == {"a:b=c": "\té\\ q"}
    assert parse_properties("k = a\\\\\nl = b", "f") == {"k": "a\\", "l": "b"}


def test_a_line_that_is_no_setting_is_named_by_its_number_and_not_shown() -> None:
    with pytest.raises(ConfigError, match="the file, line 3") as caught:
        parse_properties("a=1\n\nmy secret\n", "the file")
    assert "my secret" not in str(caught.value)


@given(st.dictionaries(st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=1), st.text()))
def test_what_java_would_write_is_read_back(settings: dict[str, str]) -> None:
    def escaped(text: str) -> str:
        return "".join(f"\\u{ord(c):04x}" if ord(c) < 0x10000 else c for c in text if c not in "\U0010ffff")

    wanted = {key: value for key, value in settings.items() if all(ord(c) < 0x10000 for c in value)}
    text = "\n".join(f"{key}={escaped(value)}" for key, value in wanted.items())
    assert parse_properties(text, "f") == wanted
