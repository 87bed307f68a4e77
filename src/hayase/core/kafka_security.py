"""Security settings of Kafka's clients.

Which there are, and what the names of the Java clients are called in librdkafka.

Settings that mean the same are translated; for the others an error says what to use instead.
"""

from __future__ import annotations

import contextlib
import difflib
import re
from collections.abc import Mapping

from hayase.core.errors import ConfigError
from hayase.core.secrets import check_references, is_reference, known_secrets, only_reference, resolve

_LIBRDKAFKA = frozenset(
    [
        "security.protocol",
        "enable.ssl.certificate.verification",
        "ssl.endpoint.identification.algorithm",
        "ssl.ca.location",
        "ssl.ca.pem",
        "ssl.crl.location",
        "ssl.certificate.location",
        "ssl.certificate.pem",
        "ssl.key.location",
        "ssl.key.password",
        "ssl.key.pem",
        "ssl.keystore.location",
        "ssl.keystore.password",
        "ssl.cipher.suites",
        "ssl.curves.list",
        "ssl.sigalgs.list",
        "ssl.providers",
        "https.ca.location",
        "https.ca.pem",
        "sasl.mechanism",
        "sasl.mechanisms",
        "sasl.username",
        "sasl.password",
        "sasl.kerberos.service.name",
        "sasl.kerberos.principal",
        "sasl.kerberos.keytab",
        "sasl.kerberos.kinit.cmd",
        "sasl.kerberos.min.time.before.relogin",
        "enable.sasl.oauthbearer.unsecure.jwt",
        "sasl.oauthbearer.config",
        "sasl.oauthbearer.method",
        "sasl.oauthbearer.client.id",
        "sasl.oauthbearer.client.secret",
        "sasl.oauthbearer.client.credentials.client.id",
        "sasl.oauthbearer.client.credentials.client.secret",
        "sasl.oauthbearer.scope",
        "sasl.oauthbearer.extensions",
        "sasl.oauthbearer.token.endpoint.url",
        "sasl.oauthbearer.grant.type",
        "sasl.oauthbearer.assertion.algorithm",
        "sasl.oauthbearer.assertion.private.key.file",
        "sasl.oauthbearer.assertion.private.key.passphrase",
        "sasl.oauthbearer.assertion.private.key.pem",
        "sasl.oauthbearer.assertion.file",
        "sasl.oauthbearer.assertion.claim.aud",
        "sasl.oauthbearer.assertion.claim.exp.seconds",
        "sasl.oauthbearer.assertion.claim.iss",
        "sasl.oauthbearer.assertion.claim.jti.include",
        "sasl.oauthbearer.assertion.claim.nbf.seconds",
        "sasl.oauthbearer.assertion.claim.sub",
        "sasl.oauthbearer.assertion.jwt.template.file",
        "sasl.oauthbearer.metadata.authentication.type",
    ]
)
"""What is passed on: librdkafka's own names."""

_TLS_VERSIONS = "OpenSSL agrees with the broker on the best version of TLS that both have; remove it"
_ALGORITHMS = "it chooses among the algorithms of Java's security providers; remove it"
_CALLBACK = (
    "it names a Java class; tokens come from sasl.oauthbearer.method=oidc with sasl.oauthbearer.client.id, "
    "…client.secret and …token.endpoint.url"
)
_REFRESH = "the client library renews logins by its own rules; remove it"
_NO_COUNTERPART: Mapping[str, str] = {
    "ssl.protocol": _TLS_VERSIONS,
    "ssl.enabled.protocols": _TLS_VERSIONS,
    "ssl.provider": "it names a Java provider; ssl.providers names those of OpenSSL",
    "ssl.keymanager.algorithm": _ALGORITHMS,
    "ssl.trustmanager.algorithm": _ALGORITHMS,
    "ssl.secure.random.implementation": _ALGORITHMS,
    "ssl.engine.factory.class": (
        "it names a Java class; use ssl.ca.location, ssl.certificate.location and ssl.key.location"
    ),
    "security.providers": "it names Java classes; OpenSSL's providers are named by ssl.providers",
    "sasl.client.callback.handler.class": _CALLBACK,
    "sasl.login.callback.handler.class": _CALLBACK,
    "sasl.login.class": _CALLBACK,
    "sasl.oauthbearer.jwt.retriever.class": _CALLBACK,
    "sasl.oauthbearer.jwt.validator.class": _CALLBACK,
    "sasl.kerberos.ticket.renew.jitter": "use sasl.kerberos.kinit.cmd and sasl.kerberos.min.time.before.relogin",
    "sasl.kerberos.ticket.renew.window.factor": "use sasl.kerberos.kinit.cmd and sasl.kerberos.min.time.before.relogin",
}
"""Settings of the Java clients that mean nothing here, and what to do about each."""
_TRANSLATED = frozenset(
    [
        "ssl.truststore.location",
        "ssl.truststore.type",
        "ssl.truststore.password",
        "ssl.truststore.certificates",
        "ssl.keystore.type",
        "ssl.keystore.key",
        "ssl.keystore.certificate.chain",
        "sasl.jaas.config",
    ]
)
"""Settings of the Java clients that `translated` knows, besides those that are called alike."""
_JAAS = "sasl.jaas.config"
_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_PREFIXES = ("ssl.", "sasl.", "security.", "enable.ssl.", "enable.sasl.", "https.ca.")

_PEM_SUFFIXES = (".pem", ".crt", ".cer", ".cert")
_PKCS12_SUFFIXES = (".p12", ".pfx", ".pkcs12")
_PEM = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----(.*?)-----END \1-----", re.DOTALL)
_LOGIN = re.compile(r"\s*([\w.$]+)\s+(?:required|requisite|sufficient|optional)\b(.*?);?\s*", re.DOTALL | re.IGNORECASE)
_OPTION = re.compile(r"""\s*([\w.\-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s;"']+))""")


def is_security_key(key: str) -> bool:
    """Whether a client setting, without its prefix, is about security.

    Example:
        >>> is_security_key("sasl.jaas.config"), is_security_key("linger.ms")
        (True, False)
    """
    return key.startswith(_PREFIXES)


def check_security(settings: Mapping[str, object]) -> None:
    """Look at settings of a client as they are given, with their references.

    Raises:
        ConfigError: as `translated`; `UNKNOWN_PROVIDER`.
    """
    check_references(settings)
    translated(settings)


def usable_settings(settings: Mapping[str, object]) -> dict[str, object]:
    """Client settings as librdkafka takes them: translated, every reference resolved.

    Raises:
        ConfigError: as `translated` and `hayase.core.secrets.resolve`.
    """
    # A password inside a JAAS configuration is resolved once it is out of its quotes.
    quoted = isinstance(settings.get(_JAAS), str) and not only_reference(settings[_JAAS])
    seen = {
        key: resolve(key, value) if isinstance(value, str) and not (quoted and key == _JAAS) else value
        for key, value in settings.items()
    }
    usable = translated(seen)
    if quoted:
        usable |= {key: resolve(key, str(usable[key])) for key in ("sasl.username", "sasl.password") if key in usable}
    return usable


def client_secrets(settings: Mapping[str, object]) -> tuple[str, ...]:
    """What of clients' settings must be masked in texts, as far as it can be seen in this process.

    Args:
        settings: also with the prefixes `consumer.`, `producer.` and `admin.`.
    """
    secrets = list(known_secrets(settings))
    for prefix in ("", "consumer.", "producer.", "admin."):
        own = {key.removeprefix(prefix): value for key, value in settings.items() if key.startswith(prefix)}
        with contextlib.suppress(ConfigError):  # said where the settings are used
            secrets += known_secrets(usable_settings({key: own[key] for key in own if is_security_key(key)}))
    return tuple(dict.fromkeys(secrets))


def translated(settings: Mapping[str, object]) -> dict[str, object]:
    """Client settings under librdkafka's names. Settings that are not about security stay as they are.

    Raises:
        ConfigError: `UNKNOWN_SETTING`: an unknown security setting. `UNSUPPORTED_SETTING`: one of the Java clients that
            has no counterpart; says what to use. `INVALID_SETTING`: a value, or two settings that contradict each
            other.

    Example:
        >>> java = "org.apache.kafka.common.security.plain.PlainLoginModule required username='ada' password='x y';"
        >>> translated({"security.protocol": "SASL_PLAINTEXT", "sasl.jaas.config": java})
        {'security.protocol': 'SASL_PLAINTEXT', 'sasl.username': 'ada', 'sasl.password': 'x y', 'sasl.mechanism':
        'PLAIN'}
        >>> translated({"ssl.truststore.location": "/etc/ca.pem", "linger.ms": "5"})
        {'linger.ms': '5', 'ssl.ca.location': '/etc/ca.pem'}
    """
    settings_of_client = {key: value for key, value in settings.items() if key not in _TRANSLATED}
    for key in settings_of_client:
        if is_security_key(key) and key not in _LIBRDKAFKA:
            raise _unknown(key)
    protocol = settings_of_client.get("security.protocol", "PLAINTEXT")
    if not is_reference(protocol) and str(protocol).upper() not in _PROTOCOLS:
        raise _invalid(
            "security.protocol", f"security.protocol is {protocol!r}; allowed is one of {', '.join(_PROTOCOLS)}"
        )
    for translated_part in (_truststore(settings), _keystore(settings, settings_of_client), _login(settings)):
        for key, value in translated_part.items():
            if settings_of_client.setdefault(key, value) != value:
                raise _invalid(
                    key, f"{key} is set, and a setting of the Java clients says something else; leave one out"
                )
    if settings_of_client.get("ssl.endpoint.identification.algorithm") == "":
        settings_of_client["ssl.endpoint.identification.algorithm"] = "none"  # how Java spells it
    return settings_of_client


def _truststore(given: Mapping[str, object]) -> dict[str, str]:
    truststore: dict[str, str] = {}
    location = _text(given, "ssl.truststore.location")
    if location is not None:
        kind = _store_type("ssl.truststore", given, location)
        if kind != "PEM":
            raise _invalid(
                "ssl.truststore.location",
                f"a truststore of type {kind} cannot be read by the client library; make a PEM file of it (`keytool "
                "-list -rfc -keystore FILE > ca.pem`) and set ssl.ca.location=ca.pem",
            )
        truststore["ssl.ca.location"] = location
    if (certificates := _text(given, "ssl.truststore.certificates")) is not None:
        truststore["ssl.ca.pem"] = _wrapped(certificates)
    if "ssl.truststore.password" in given:
        raise _invalid(
            "ssl.truststore.password", "a truststore of type PEM has no password; remove ssl.truststore.password"
        )
    return truststore


def _keystore(given: Mapping[str, object], settings_of_client: dict[str, object]) -> dict[str, str]:
    keystore: dict[str, str] = {}
    location = _text(given, "ssl.keystore.location")
    if location is not None:
        kind = _store_type("ssl.keystore", given, location)
        if kind == "PEM":  # one file with the key and the certificates
            del settings_of_client["ssl.keystore.location"]
            keystore |= {"ssl.key.location": location, "ssl.certificate.location": location}
        elif kind != "PKCS12":
            raise _invalid(
                "ssl.keystore.location",
                f"a keystore of type {kind} cannot be read by the client library; make a PKCS12 file of it (`keytool "
                "-importkeystore -srckeystore FILE -destkeystore client.p12 -deststoretype PKCS12`) and set "
                "ssl.keystore.location=client.p12 and ssl.keystore.type=PKCS12",
            )
    for java, name in (("ssl.keystore.key", "ssl.key.pem"), ("ssl.keystore.certificate.chain", "ssl.certificate.pem")):
        if java in given:
            keystore[name] = _wrapped(str(given[java]))
    return keystore


def _text(given: Mapping[str, object], key: str) -> str | None:
    value = given.get(key)
    return None if value is None else str(value)


def _store_type(which: str, given: Mapping[str, object], location: str) -> str:
    """`PEM`, `PKCS12`, `JKS` or what else was given; without a type the file's name tells."""
    kind = given.get(f"{which}.type")
    if kind is not None:
        return str(kind).upper()
    lower = location.lower()
    if lower.endswith(_PEM_SUFFIXES):
        return "PEM"
    if lower.endswith(_PKCS12_SUFFIXES):
        return "PKCS12"
    if which == "ssl.keystore" and "ssl.keystore.password" in given and not lower.endswith(".jks"):
        return "PKCS12"  # what librdkafka takes it for
    return "JKS"


def _login(given: Mapping[str, object]) -> dict[str, str]:
    jaas = _text(given, "sasl.jaas.config")
    if jaas is None or only_reference(jaas):
        return {}
    login = _LOGIN.fullmatch(jaas)
    if login is None:
        raise _invalid("sasl.jaas.config", 'sasl.jaas.config must read: MODULE required username="…" password="…";')
    module, options = login.group(1).rpartition(".")[2], _options(login.group(2))
    mechanism = given.get("sasl.mechanism", given.get("sasl.mechanisms"))
    if module == "PlainLoginModule":
        return _named(options) | _mechanism(mechanism, ("PLAIN",), module)
    if module == "ScramLoginModule":
        if options.get("tokenauth", "").lower() == "true":
            raise _invalid("sasl.jaas.config", "delegation tokens (tokenauth=true) are not known to the client library")
        return _named(options) | _mechanism(mechanism, ("SCRAM-SHA-256", "SCRAM-SHA-512"), module)
    advice = {
        "Krb5LoginModule": "set sasl.mechanism=GSSAPI, sasl.kerberos.service.name, sasl.kerberos.principal and "
        "sasl.kerberos.keytab",
        "OAuthBearerLoginModule": "set sasl.mechanism=OAUTHBEARER, sasl.oauthbearer.method=oidc, "
        "sasl.oauthbearer.client.id, sasl.oauthbearer.client.secret and sasl.oauthbearer.token.endpoint.url",
    }.get(module, "PlainLoginModule and ScramLoginModule are; else use sasl.mechanism, sasl.username and sasl.password")
    raise _invalid("sasl.jaas.config", f"the login module {module} of sasl.jaas.config cannot be translated: {advice}")


def _options(text: str) -> dict[str, str]:
    options: dict[str, str] = {}
    place = 0
    while option := _OPTION.match(text, place):
        name, double, single, bare = option.groups()
        quoted = double if double is not None else single
        options[name] = re.sub(r"\\(.)", r"\1", quoted) if quoted is not None else bare
        place = option.end()
    if text[place:].strip():
        raise _invalid(
            "sasl.jaas.config",
            'the options of sasl.jaas.config cannot be read; they must be NAME="VALUE", with one login module and `;` '
            "at the end",
        )
    return options


def _named(options: Mapping[str, str]) -> dict[str, str]:
    missing = [name for name in ("username", "password") if name not in options]
    if missing:
        raise _invalid("sasl.jaas.config", f"sasl.jaas.config has no {' and no '.join(missing)}")
    return {"sasl.username": options["username"], "sasl.password": options["password"]}


def _mechanism(given: object, allowed: tuple[str, ...], module: str) -> dict[str, str]:
    if given is None and len(allowed) == 1:
        return {"sasl.mechanism": allowed[0]}
    if given not in allowed:
        raise _invalid(
            "sasl.mechanism", f"sasl.mechanism is {given!r}; with {module} allowed is {' or '.join(allowed)}"
        )
    return {}


def _wrapped(text: str) -> str:
    """PEM with the line breaks that a properties file has lost, and OpenSSL wants."""

    def one(block: re.Match[str]) -> str:
        name, body = block.groups()
        if ":" in body:  # headers of an encrypted key of the old kind: its lines matter
            return block.group(0)
        packed = "".join(body.split())
        lines = [packed[start : start + 64] for start in range(0, len(packed), 64)]
        return "\n".join([f"-----BEGIN {name}-----", *lines, f"-----END {name}-----\n"])

    return text if is_reference(text) else _PEM.sub(one, text)


def _invalid(setting: str, message: str) -> ConfigError:
    return ConfigError("INVALID_SETTING", message, setting=setting)


def _unknown(key: str) -> ConfigError:
    reason = _NO_COUNTERPART.get(key)
    if reason is None and key.startswith(("sasl.login.refresh.", "sasl.login.", "sasl.oauthbearer.jwks.")):
        reason = _REFRESH
    if reason is not None:
        return ConfigError(
            "UNSUPPORTED_SETTING", f"{key} of the Java clients has no counterpart here: {reason}", setting=key
        )
    known = sorted(_LIBRDKAFKA | _TRANSLATED)
    near = difflib.get_close_matches(key, known, n=1, cutoff=0.6)
    advice = f"did you mean {near[0]!r}?" if near else "docs/operations.md lists those that there are"
    return ConfigError(
        "UNKNOWN_SETTING", f"there is no security setting {key!r} of Kafka's clients; {advice}", setting=key
    )
