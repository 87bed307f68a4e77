"""What an `s3://` URL says, and what it may not say."""

from __future__ import annotations

import importlib.util

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hayase.core.errors import ConfigError, MissingRequirementError
from hayase.storage.open import open_blobs
from hayase.storage.s3_location import S3Location

FOLDERS = st.lists(st.text("abcXYZ019-_.~", min_size=1).filter(lambda part: part not in (".", "..")), max_size=4)


@given(
    st.text("abc019-", min_size=3),
    FOLDERS,
    st.sampled_from([None, "http://127.0.0.1:9000", "https://s3.example.com"]),
    st.sampled_from([None, "eu-west-1"]),
    st.sampled_from([None, True, False]),
    st.booleans(),
)
def test_every_part_of_a_url_is_found(
    bucket: str, parts: list[str], endpoint: str | None, region: str | None, path_style: bool | None, conditional: bool
) -> None:
    given_ = {"endpoint": endpoint, "region": region, "path_style": path_style, "conditional_put": conditional}
    query = "&".join(f"{name}={str(value).lower()}" for name, value in given_.items() if value is not None)
    where = S3Location.parse(f"s3://{bucket}/{'/'.join(parts)}?{query}")
    folder = "".join(f"{part}/" for part in ["/".join(parts)] if part)
    assert where == S3Location(bucket, folder, endpoint, region, path_style, conditional)


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("s3://", "no bucket"),
        ("s3:///folder", "no bucket"),
        ("s3:bucket/folder", "no bucket"),
        ("s3://bucket/a/../b", "no folder"),
        ("s3://bucket/a//b", "no folder"),
        ("s3://bucket/a#b", "fragment"),
        ("s3://bucket/a?endpont=http://x", "'endpont'"),
        ("s3://bucket/a?endpoint=localhost:9000", "http(s)://host:port"),
        ("s3://bucket/a?endpoint=http://user:pass@localhost", "without credentials"),
        ("s3://bucket/a?endpoint=http://x:99999", "http(s)://host:port"),
        ("s3://bucket/a?path_style=yes", "true or false"),
        ("s3://bucket/a?region=", "region is empty"),
    ],
)
def test_a_url_that_is_wrong_is_refused_with_the_reason(url: str, why: str) -> None:
    with pytest.raises(ConfigError) as raised:
        open_blobs(url)
    assert raised.value.condition == "INVALID_STORAGE_URL" and why in raised.value.message


def test_credentials_in_a_url_are_refused_and_not_repeated() -> None:
    for url in ("s3://KEY:geheim@bucket/a", "s3://bucket/a?endpoint=http://KEY:geheim@host"):
        with pytest.raises(ConfigError) as raised:
            open_blobs(url)
        assert "geheim" not in str(raised.value)


def test_without_the_extra_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingRequirementError, match=r"hayase\[s3\]"):
        open_blobs("s3://bucket/a")
