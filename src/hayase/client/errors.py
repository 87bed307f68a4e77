"""Errors that a server answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hayase.core.errors import HayaseError

SERVER_AWAY = 50300
_UNREADABLE = 50000


class SqlServerError(HayaseError):
    """A server refused a request, could not be reached, or its answer ended in an error.

    Attributes:
        code: of the error: the HTTP status times 100, and a number.
        statement: that it is about, where the server says so.
        entities: answers of the statements before it, in the same request.
    """

    def __init__(
        self,
        condition: str,
        message: str,
        *,
        code: int = SERVER_AWAY,
        statement: str | None = None,
        entities: Sequence[Mapping[str, Any]] = (),
        **context: object,
    ) -> None:
        super().__init__(condition, message, **context)
        self.code = code
        self.statement = statement
        self.entities = tuple(entities)


def error_of(answer: object, status: int) -> SqlServerError:
    """The error of an answer, by its JSON."""
    if not isinstance(answer, Mapping) or "message" not in answer:
        text = str(answer)[:200]
        return SqlServerError(
            "REFUSED", f"the server answered with status {status} and no error object: {text}", code=status * 100
        )
    code = answer.get("error_code")
    return SqlServerError(
        "REFUSED",
        str(answer["message"]),
        code=code if isinstance(code, int) else _UNREADABLE,
        statement=answer.get("statementText"),
        entities=answer.get("entities") or (),
    )


def unreachable(url: str, error: Exception) -> SqlServerError:
    """The error of a server that does not answer, or of an address that is none."""
    if not url.startswith(("http://", "https://")):
        return SqlServerError(
            "INVALID_URL", f"'{url}' is no address of a server: it begins with http:// or https://, as in http://{url}"
        )
    if "CERTIFICATE_VERIFY_FAILED" in str(error):
        return SqlServerError(
            "UNTRUSTED_SERVER",
            f"the certificate of {url} is not trusted: {error}. If an authority of your own signed it, name its "
            "certificate in the environment: SSL_CERT_FILE=ca.pem",
        )
    return SqlServerError(
        "SERVER_AWAY",
        f"{url} cannot be reached: {type(error).__name__}: {error}. Is a server running there? `hayase server` starts "
        "one",
    )
