"""Functions of texts over columns of Polars: a value, and where the row form decides.

Polars counts characters where Java counts units of UTF-16, so that texts with characters beyond U+FFFF go to the row
form; its table of letters is newer than Python's, so that letters since Unicode 15 go there too.
"""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

Pair = tuple[pl.Expr, pl.Expr]

_WIDE = r"[\x{10000}-\x{10FFFF}]"
_NEWER = r"[\x{19b}\x{264}\x{1c89}\x{1c8a}\x{a7cb}-\x{a7df}\x{10000}-\x{10FFFF}]"
_CONTROLS_AND_SPACE = "".join(map(chr, range(0x21)))


def is_wide(text: pl.Expr) -> pl.Expr:
    """Where a text has characters of two units; never null."""
    return text.str.contains(_WIDE).fill_null(False)


def lower(text: pl.Expr) -> Pair:
    """In lower case."""
    return text.str.to_lowercase(), text.str.contains(_NEWER).fill_null(False)


def upper(text: pl.Expr) -> Pair:
    """In upper case."""
    return text.str.to_uppercase(), text.str.contains(_NEWER).fill_null(False)


def trimmed(text: pl.Expr) -> pl.Expr:
    """Without characters up to U+0020 at both ends."""
    return text.str.strip_chars(_CONTROLS_AND_SPACE)


def length(text: pl.Expr) -> pl.Expr:
    """Units of UTF-16."""
    return text.str.len_chars().cast(pl.Int64) + text.str.count_matches(_WIDE).cast(pl.Int64)


def split(text: pl.Expr, delimiter: pl.Expr) -> Pair:
    """The parts between a delimiter that is not empty."""
    return text.str.split(delimiter), (delimiter == "").fill_null(False) | is_wide(text)


def substring(settings: Mapping[str, object], text: pl.Expr, position: pl.Expr) -> Pair:
    """From a position to the end."""
    return text.str.slice(_start(text, position)), _by_row(settings, text)


def substring_of(settings: Mapping[str, object], text: pl.Expr, position: pl.Expr, count: pl.Expr) -> Pair:
    """From a position on, with a length at most."""
    return text.str.slice(_start(text, position), count.clip(0, None)), _by_row(settings, text)


def _start(text: pl.Expr, position: pl.Expr) -> pl.Expr:
    count = text.str.len_chars().cast(pl.Int64)
    from_end = pl.max_horizontal(count + position, pl.lit(0, dtype=pl.Int64))
    from_start = pl.max_horizontal(pl.min_horizontal(position - 1, count), pl.lit(0, dtype=pl.Int64))
    return pl.when(position < 0).then(from_end).otherwise(from_start)


def _by_row(settings: Mapping[str, object], text: pl.Expr) -> pl.Expr:
    legacy = str(settings.get("ksql.functions.substring.legacy.args", False)).lower() == "true"
    return pl.lit(True) if legacy else is_wide(text)


def replaced(text: pl.Expr, old: pl.Expr, new: pl.Expr) -> Pair:
    """With all occurrences of a literal replaced by another; what is no literal goes to the row form."""
    if not old.meta.is_literal() or not new.meta.is_literal() or not pl.select(old).item():
        return text, pl.lit(True)
    return text.str.replace_all(old, new, literal=True), is_wide(text)


def joined(separator: pl.Expr, *texts: pl.Expr) -> Pair:
    """With a literal separator between, nulls left out."""
    if not texts or not separator.meta.is_literal() or pl.select(separator).item() is None:
        return separator, pl.lit(True)
    return pl.concat_str(*texts, separator=pl.select(separator).item(), ignore_nulls=True), pl.lit(False)
