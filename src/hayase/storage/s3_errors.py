"""What went wrong with an S3 store, in one line that says what to do; and whether trying again may help."""

from __future__ import annotations

from botocore import exceptions as botocore

from hayase.core.errors import ConfigError, HayaseError, StorageError
from hayase.storage.s3_location import S3Location

_CREDENTIALS = (
    botocore.NoCredentialsError,
    botocore.PartialCredentialsError,
    botocore.CredentialRetrievalError,
    botocore.ProfileNotFound,
    botocore.TokenRetrievalError,
    botocore.SSOError,
)
_NETWORK = (botocore.HTTPClientError, botocore.ConnectionError, botocore.IncompleteReadError)
_REFUSED = ("InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "InvalidToken", "AccessDenied")
_PASSING = (
    "ConditionalRequestConflict",
    "OperationAborted",
    "SlowDown",
    "RequestTimeout",
    "BadDigest",
    "IncompleteBody",
)
_NOT_KNOWN = ("NotImplemented", "UnsupportedOperation")


def status_of(error: Exception) -> int | None:
    """The HTTP status that the store answered with; `None` if it is another kind of error."""
    if not isinstance(error, botocore.ClientError):
        return None
    status: int | None = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode")
    return status


def code_of(error: Exception) -> str:
    """The store's word for the error; empty if it is another kind of error."""
    return str(error.response.get("Error", {}).get("Code", "")) if isinstance(error, botocore.ClientError) else ""


def may_pass(error: Exception) -> bool:
    """Whether trying the same again may help: the network, an overloaded store, two writers at the same moment."""
    if isinstance(error, botocore.ClientError):
        status = status_of(error) or 0
        return (status >= 500 and code_of(error) not in _NOT_KNOWN) or status == 429 or code_of(error) in _PASSING
    return isinstance(error, _NETWORK) and not isinstance(error, botocore.SSLError)


def explain(error: Exception, where: S3Location, doing: str) -> HayaseError:
    """The error for people.

    Args:
        error: what botocore raised.
        where: the store.
        doing: what was tried, e.g. `reading epochs/7`.
    """
    status, code = status_of(error), code_of(error)
    if isinstance(error, _CREDENTIALS):
        return ConfigError(
            "S3_CREDENTIALS_MISSING",
            f"there are no usable credentials for {where} ({_one_line(error)}). Set AWS_ACCESS_KEY_ID and "
            "AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, or run where a role gives them",
        )
    if code == "NoSuchBucket":
        return ConfigError(
            "S3_BUCKET_MISSING", f"there is no bucket {where.bucket!r} ({where}); make it, or fix checkpoint.dir"
        )
    if code in _REFUSED or status in (401, 403):
        return ConfigError(
            "S3_ACCESS_DENIED",
            f"{where} refused {doing} ({code or status}). The credentials must be valid and allow s3:GetObject, "
            "s3:PutObject, s3:DeleteObject and s3:ListBucket there",
        )
    if code in _NOT_KNOWN:
        return ConfigError(
            "PUBLISH_NOT_ATOMIC",
            f"{where} does not know a request that is needed for {doing} ({_one_line(error)}). If that is the "
            "conditional PUT (If-None-Match), use another store, or processing.guarantee=at_least_once and "
            "'?conditional_put=false' in checkpoint.dir",
        )
    if isinstance(error, _NETWORK):
        return StorageError(
            "S3_UNREACHABLE",
            f"{where} gave no answer to {doing}, tried several times: {_one_line(error)}. Check the endpoint and the "
            "network",
        )
    return StorageError("S3_FAILED", f"{where} failed at {doing}: {_one_line(error)}")


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
