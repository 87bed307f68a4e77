"""Patterns of LIKE in rows: the meaning of regular expressions, without their time."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hayase.sql.errors import FunctionError
from hayase.sql.expressions import patterns
from hayase.sql.expressions.patterns import like, like_regex


@given(st.text("ab%_\\\n", max_size=8), st.text("ab%_\\\n", max_size=8), st.sampled_from([None, "\\", "b"]))
def test_a_pattern_matches_what_its_regular_expression_does(pattern: str, text: str, escape: str | None) -> None:
    expected = re.fullmatch(like_regex(pattern, escape), text, re.DOTALL) is not None
    assert like(text, pattern, escape) is expected


@pytest.mark.parametrize(
    ("text", "pattern"),
    [("a" * 100_000, "%a" * 50 + "%b%"), ("a" * 100_000, "%" + "a" * 50_000 + "b%"), ("a" * 20_000, "%a_" * 20 + "b%")],
)
def test_no_pattern_takes_longer_than_its_length_times_that_of_the_text(text: str, pattern: str) -> None:
    begin_s = time.process_time()
    assert like(text, pattern, None) is False
    assert time.process_time() - begin_s < 2.0


def test_a_part_with_any_characters_is_not_sought_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patterns, "_MATCH_S", 0.05)
    with pytest.raises(FunctionError, match="without a result"):
        like("a" * 3_000_000, "%" + "a_" * 15_000 + "b%", None)
