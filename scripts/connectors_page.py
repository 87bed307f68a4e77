"""Write docs/connectors from the definitions of the connectors: `python scripts/connectors_page.py`."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path

from hayase.connect.config.config_def import ConfigDef, ConfigKey
from hayase.connect.config.connector_config import (
    predicate_keys,
    sink_config,
    source_config,
    topic_creation_keys,
    transform_keys,
)
from hayase.connect.config.types import config_text
from hayase.connect.config.worker_config import worker_config_def
from hayase.connect.contracts import SinkConnector, SinkDelivery, SourceConnector
from hayase.connect.plugins import SINKS, SOURCES, Plugins, PluginType

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "connectors"

_KINDS = {
    SinkDelivery.TRANSACTIONAL: "exactly once: rows and next offsets are one transaction of the database",
    SinkDelivery.REPEATABLE: "exactly once: each range of offsets is written once, under its number",
    SinkDelivery.AT_LEAST_ONCE: "at least once: after a failure a record may be written again",
}

_BUCKETS = (
    "Paths are those of fsspec: `s3://` needs `pip install 'hayase[s3-files]'`, other stores need their package. "
    "Credentials, and the endpoint of a store other than Amazon's (`AWS_ENDPOINT_URL_S3`), come from the worker's "
    "environment or `~/.aws`. While a store is away the task waits for it."
)

EXAMPLES: dict[str, tuple[str, dict[str, str]]] = {
    "file-stream-source": (
        "The lines of one file, as it grows. A line counts when its end is written.",
        {"connector.class": "FileStreamSource", "file": "/var/log/shop.log", "topic": "shop-log"},
    ),
    "file-source": (
        (
            "The rows of files that are complete, each file once, in the order of their names. A file that grows "
            "after it "
            "was found is an error: rename files into place, or raise `settle.ms`. A broken row fails the task with "
            "file "
            "and row; `errors.tolerance=all` skips and counts it (`rows-skipped-total`). " + _BUCKETS
        ),
        {
            "connector.class": "FileSource",
            "path": "/data/in/*.csv",
            "format": "csv",
            "topic": "prices",
            "after": "move",
            "move.path": "/data/done",
        },
    ),
    "datagen-source": (
        (
            "Records from templates, for trying things out: the same seed makes the same records, however often the "
            "worker "
            "is restarted."
        ),
        {
            "connector.class": "DatagenSource",
            "topic": "clicks",
            "records.per.second": "100",
            "fields": '{"id": {"kind": "sequence"}, "page": {"kind": "choice", "of": ["home", "cart"]}}',
        },
    ),
    "webhook-source": (
        (
            "Requests as records. A request is answered when its record is durable: 200 after the commit. One that "
            "carries "
            "the idempotency header, or is a CloudEvent, makes one record however often it comes, also over a "
            "crash; the "
            'repeat is answered 200 with `"repeated": true`. 401: the signature is missing, wrong or old; '
            "413 and 400: the "
            "body; 429: the queue is full; 503: not durable within `answer.timeout.ms`, repeat it. Requests without "
            "a name "
            "come at least once, since a client that got no answer repeats them. "
            "The worker takes the requests at `/webhooks/NAME` of its REST interface, and forwards them to where the "
            "task runs now: that address stays. While the task moves, a request waits up to 10 s. Where the worker "
            "asks for passwords, these requests need none if `hmac.secret` is set."
        ),
        {
            "connector.class": "WebhookSource",
            "topic": "orders",
            "key.field": "order_id",
            "hmac.secret": "${env:WEBHOOK_SECRET}",
        },
    ),
    "command-source": (
        (
            "Commands for an [aggregate](../patterns.md#commands-by-http) by HTTP: the reply is the answer. `POST "
            "/17/Place` with the fields of the command as JSON, or a CloudEvent with `ce-subject`, `ce-type` and "
            "`ce-id`. The id of the command is `ce-id` or `Idempotency-Key`: a repeat counts once and gets the same "
            "reply. 200: accepted; 422: rejected, or the id is that of a command of another type or with other fields; "
            "409: conflict; 400: invalid; 403: none of `allowed.types`; 500: failed, and a repeat is tried again; 429: "
            "too many wait; 504: no reply within `answer.timeout.ms`, so the outcome is unknown: repeat it with its "
            "id. `ce-expectedversion`, `ce-correlationid`, `ce-causationid` and `ce-source` are those of the command. "
            "The worker takes the same requests behind `/webhooks/NAME` of its REST interface, as `POST "
            "/webhooks/NAME/17/Place`, and forwards them: where the port is left out, that is the address, and no "
            "password is asked for if `hmac.secret` is set. What is signed: see `hmac.header`; a signed request "
            "without an id is answered 400, since it would count each time. Until the application has made the topics "
            "the task waits, and its status says so."
        ),
        {
            "connector.class": "CommandSource",
            "aggregate": "order",
            "webhook.port": "9090",
            "hmac.secret": "${env:WEBHOOK_SECRET}",
            "key.converter": "StringConverter",
            "value.converter": "StringConverter",
            "header.converter": "StringConverter",
        },
    ),
    "postgres-source": (
        (
            "Changes of PostgreSQL tables as Debezium's events, under Debezium's keys: topic names, envelopes, keys of "
            "records and offsets are the same, so the configuration of a Debezium connector goes on with its offsets. "
            "Tables are read in chunks first, then the stream of changes follows, exactly."
        ),
        {
            "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
            "topic.prefix": "shop",
            "database.hostname": "localhost",
            "database.user": "capture",
            "database.password": "${env:PGPASSWORD}",
            "database.dbname": "shop",
            "table.include.list": "public.users,public.products",
        },
    ),
    "file-stream-sink": (
        "Values as lines of one file, in it as soon as they are read; made durable when offsets are committed.",
        {"connector.class": "FileStreamSink", "topics": "shop-log", "file": "/tmp/shop.txt"},
    ),
    "file-sink": (
        (
            "Files named by topic, partition and number of their range, in folders by time and field. A manifest in "
            "`_manifests` names the files of each range; the first manifest of a range counts. "
            + _BUCKETS
            + " CSV and "
            "Parquet need rows: the topic of a capture has tombstones behind deletes, which the transform `Filter` "
            "with the predicate `RecordIsTombstone` leaves out. Set it before the first start: a range that was begun "
            "is not written with another configuration (`RANGE_OF_OTHER_CONFIGURATION`)."
        ),
        {
            "connector.class": "FileSink",
            "topics": "orders",
            "path": "/data/out",
            "format": "parquet",
            "partition.time.format": "day=%Y-%m-%d",
        },
    ),
    "http-sink": (
        (
            "Records as requests. Each has an idempotency key made of topic, partition and offsets; a repeat has "
            "the same. "
            "408, 425, 429 and 5xx are tried again, after `Retry-After` if it is given; other answers fail the "
            "task, or make "
            "a dead letter."
        ),
        {
            "connector.class": "HttpSink",
            "topics": "orders",
            "http.url": "https://example.org/orders",
            "http.authorization": "${env:TOKEN}",
        },
    ),
    "sqlite-sink": (
        (
            "Rows of an SQLite database. Decimals and times are text, structs and arrays JSON. Debezium's envelopes "
            "are "
            "taken for the rows that they hold."
        ),
        {
            "connector.class": "SqliteSink",
            "topics": "users",
            "connection.path": "/data/shop.db",
            "auto.create": "true",
            "insert.mode": "upsert",
            "primary.key.mode": "record_key",
            "delete.enabled": "true",
        },
    ),
    "postgres-sink": (
        "Rows of a PostgreSQL database, written by COPY. Debezium's envelopes are taken for the rows that they hold.",
        {
            "connector.class": "PostgresSink",
            "topics": "sales",
            "connection.url": "postgresql://localhost:5432/shop",
            "connection.username": "shop",
            "connection.password": "${env:PGPASSWORD}",
            "auto.create": "true",
            "insert.mode": "upsert",
            "primary.key.mode": "record_key",
        },
    ),
}
"""What a page says first, and its example."""


def slug(name: str) -> str:
    """The page of a connector, by the name of its class."""
    simple = name.rpartition(".")[2].removesuffix("Connector")
    if simple == "Postgres":
        return "postgres-source"
    return "".join(f"-{each.lower()}" if each.isupper() else each for each in simple).lstrip("-")


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _row(key: ConfigKey) -> str:
    default = "required" if key.required else config_text(key.default, key.type) or ""
    shown = default if key.required or not default else f"`{default}`"
    return f"| `{key.name}` | {str(key.type).lower()} | {_cell(shown)} | {_cell(key.documentation)} |\n"


def table(definition: ConfigDef) -> str:
    """The keys of a definition."""
    rows = "".join(_row(key) for key in definition.keys.values())
    return "| key | type | default | what it does |\n|---|---|---|---|\n" + rows


def page(name: str) -> str:
    """The page of a connector."""
    plugins = Plugins(entry_points=False)
    plugin = plugins.find(name, PluginType.SOURCE, PluginType.SINK)
    cls = plugins.class_of(plugin)
    said, example = EXAMPLES[slug(name)]
    if issubclass(cls, SinkConnector):
        guarantee = _KINDS[cls.delivery]
    else:
        assert issubclass(cls, SourceConnector)
        guarantee = "exactly once, where `exactly.once.support=required` is accepted"
    title = (
        slug(name)
        .replace("-", " ")
        .replace("http", "HTTP")
        .replace("sqlite", "SQLite")
        .replace("postgres", "PostgreSQL")
    )
    config = json.dumps({"name": slug(name), "config": example}, indent=2)
    body = "\n".join(textwrap.wrap(said, 120, break_long_words=False, break_on_hyphens=False))
    return (
        f"# {title[0].upper()}{title[1:]}\n\nMade by `scripts/connectors_page.py`. "
        f"Class: `{plugin.aliases[1]}`, in full\n"
        f"`{plugin.name}`.\n\n{body}\n\nGuarantee: {guarantee}.\n\n```json\n{config}\n```\n\n## Keys\n\n"
        f"{table(cls.config())}\nKeys that all connectors take: [common keys](common-keys.md).\n"
    )


def common_page() -> str:
    """The page of the keys that all connectors take, and of those of the worker."""
    sources, sinks = source_config(), sink_config()
    only_sources = ConfigDef(key for name, key in sources.keys.items() if name not in sinks.keys)
    only_sinks = ConfigDef(key for name, key in sinks.keys.items() if name not in sources.keys)
    both = ConfigDef(key for name, key in sources.keys.items() if name in sinks.keys)
    return (
        "# Keys of all connectors\n\nMade by `scripts/connectors_page.py`.\n\n## Sources and sinks\n\n"
        f"{table(both)}\n## Sources\n\n{table(only_sources)}\n## Topics that sources make\n\nFor each group of "
        "`topic.creation.groups`, and for `default`. Other keys of a group are settings of the topic.\n\n"
        f"{table(topic_creation_keys('GROUP'))}\n## Sinks\n\n{table(only_sinks)}\n"
        "`consumer.override.auto.offset.reset`: where a sink begins that has no offset; `earliest` unless given.\n"
        "`consumer.override.max.poll.records`: how many records a `put` gets at most.\n\n"
        f"## Transforms and predicates\n\n{table(transform_keys('ALIAS'))}\n{table(predicate_keys('ALIAS'))}\n"
        f"## The worker\n\n{table(worker_config_def())}\n"
        "`config.providers.file.param.allowed.paths`, `config.providers.dir.param.allowed.paths` (folders) and\n"
        "`config.providers.env.param.allowlist.pattern` (a regular expression) say which references connectors may "
        "use; none\nunless given.\n"
    )


def pages() -> dict[str, str]:
    """All pages, by file name."""
    made = {f"{slug(name)}.md": page(name) for name in (*SOURCES, *SINKS)}
    return {"common-keys.md": common_page(), **made}


def main() -> None:
    """Write them."""
    for name, text in pages().items():
        (FOLDER / name).write_text(text, encoding="utf-8")
        print(f"wrote {FOLDER / name}")


if __name__ == "__main__":
    main()
