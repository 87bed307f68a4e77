"""What an `s3://` URL says."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import parse_qsl, unquote, urlsplit

from hayase.core.errors import ConfigError
from hayase.storage.blobs import name_parts

_FORM = "s3://BUCKET/FOLDER?endpoint=URL&region=NAME&path_style=true|false&conditional_put=true|false"
_FLAGS = {"true": True, "false": False}


@dataclass(frozen=True)
class S3Location:
    """A folder of a bucket, and how it is reached. Holds no secrets.

    Attributes:
        bucket: name of the bucket.
        folder: where in the bucket: empty, or a path ending in `/`.
        endpoint: `http(s)://host:port` of a store other than Amazon's; `None`: what the environment or the AWS
            configuration says (`AWS_ENDPOINT_URL_S3`), else Amazon.
        region: `None`: what the environment or the AWS configuration says (`AWS_REGION`).
        path_style: whether the bucket is in the path of a request rather than in the host name; `None`: yes if an
            endpoint is given.
        conditional_put: `False` for a store that does not know `If-None-Match`: it is then asked first, which does not
            stop two writers at the same moment, so that `exactly_once_v2` is refused.
    """

    bucket: str
    folder: str = ""
    endpoint: str | None = None
    region: str | None = None
    path_style: bool | None = None
    conditional_put: bool = True

    @classmethod
    def parse(cls, url: str) -> S3Location:
        """From a URL.

        Raises:
            ConfigError: `INVALID_STORAGE_URL`, with what is wrong and the form.

        Example:
            >>> S3Location.parse("s3://data/apps/shop?endpoint=http://127.0.0.1:9000")
            S3Location(bucket='data', folder='apps/shop/', endpoint='http://127.0.0.1:9000', ...)
        """
        parts = urlsplit(url)
        if "@" in parts.netloc or ":" in parts.netloc:
            raise ConfigError(
                "INVALID_STORAGE_URL",
                "the URL of the checkpoint names a user, password or port. Between s3:// and the next / stands the "
                f"bucket alone: {_FORM}. Credentials come from the environment, ~/.aws or the machine's role, never "
                "from settings",
            )
        folder = unquote(parts.path).strip("/")
        try:
            if folder:
                name_parts(folder)
        except ValueError:
            raise _invalid(url, f"{folder!r} is no folder") from None
        if not parts.netloc or parts.fragment:
            raise _invalid(url, "there is no bucket" if not parts.netloc else "it has a #fragment")
        given = dict(parse_qsl(parts.query, keep_blank_values=True))
        endpoint, region = given.pop("endpoint", None), given.pop("region", None)
        path_style = _flag(url, given, "path_style")
        conditional_put = _flag(url, given, "conditional_put")
        if given:
            raise _invalid(url, f"it has no parameter {min(given)!r}")
        if endpoint is not None:
            _check_endpoint(url, endpoint)
        if region is not None and not region.strip():
            raise _invalid(url, "region is empty")
        return cls(
            parts.netloc, f"{folder}/" if folder else "", endpoint, region, path_style, conditional_put is not False
        )

    def __str__(self) -> str:
        return f"s3://{self.bucket}/{self.folder}" + (f" at {self.endpoint}" if self.endpoint else "")


def _flag(url: str, given: dict[str, str], name: str) -> bool | None:
    value = given.pop(name, None)
    if value is not None and value.lower() not in _FLAGS:
        raise _invalid(url, f"{name} is {value!r}; allowed is true or false")
    return None if value is None else _FLAGS[value.lower()]


def _check_endpoint(url: str, endpoint: str) -> None:
    parts = urlsplit(endpoint)
    try:
        host = parts.hostname and (parts.port or True)
    except ValueError:
        host = None
    if parts.scheme not in ("http", "https") or not host or "@" in parts.netloc:
        raise _invalid(url, "endpoint must be http(s)://host:port, without credentials")


def _invalid(url: str, why: str) -> ConfigError:
    shown = url.partition("?")[0]
    return ConfigError("INVALID_STORAGE_URL", f"{shown!r} cannot be a checkpoint: {why}; the form is {_FORM}")
