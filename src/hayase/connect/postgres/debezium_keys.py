"""Keys of Debezium's connector that this one does not have: what would change the events is refused, not ignored.

A configuration that masks a column, say, must not run without the mask.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

_NO_OTHER_FORM = "events have Debezium's default form"
_NO_MASK = "leave columns out with column.exclude.list, or use MaskField behind ExtractNewRecordState"
REFUSED: Mapping[str, tuple[str, str]] = {
    r"column\.mask\.hash\.[^.]+\.with\.salt\..+": ("", _NO_MASK),
    r"column\.mask\.hash\.v2\.[^.]+\.with\.salt\..+": (
        "", _NO_MASK
    ),
    r"column\.mask\.with\.\d+\.chars": ("", _NO_MASK),
    r"column\.truncate\.to\.\d+\.chars": ("", "use a transform in Python"),
    r"column\.propagate\.source\.type": ("", "schemas do not have the types of the database"),
    r"datatype\.propagate\.source\.type": ("", "schemas do not have the types of the database"),
    r"converters": ("", "use a transform in Python"),
    r"post\.processors": ("", "use a transform in Python"),
    r"message\.key\.columns": ("", "use ValueToKey, or a replica identity with another index"),
    r"include\.schema\.comments": ("false", "comments of the database are not in schemas"),
    r"schema\.name\.adjustment\.mode": ("none", "names of schemas are not changed; use SetSchemaMetadata"),
    r"field\.name\.adjustment\.mode": ("none", "names of fields are not changed; use ReplaceField"),
    r"topic\.naming\.strategy": (
        "io.debezium.schema.SchemaTopicNamingStrategy", "topics are named topic.prefix.schema.table; use RegexRouter"
    ),
    r"sourceinfo\.struct\.maker": (
        "io.debezium.connector.postgresql.PostgresSourceInfoStructMaker", _NO_OTHER_FORM
    ),
    r"provide\.transaction\.metadata": ("false", "there is no topic of transactions; txId is in each event"),
    r"publish\.via\.partition\.root": ("false", "partitions have topics of their own; use RegexRouter"),
    r"snapshot\.include\.collection\.list": ("", "use snapshot.mode=no_data, and signals for what is to be read"),
    r"snapshot\.select\.statement\.overrides(\..+)?": (
        "", "use snapshot.mode=no_data, and signals with additional-conditions"
    ),
    r"snapshot\.query\.mode": ("select_all", "rows are read by primary key, all columns that are captured"),
    r"event\.processing\.failure\.handling\.mode": ("fail", "use errors.tolerance"),
    r"heartbeat\.topics\.prefix": ("__debezium-heartbeat", "it is called topic.heartbeat.prefix"),
    r"slot\.drop\.on\.stop": ("false", "drop the slot in the database when the connector is deleted"),
    r"slot\.stream\.params": ("", "the stream has the options that exactness needs"),
    r"slot\.failover": ("false", "make the slot in the database, with failover, before the connector"),
    r"database\.initial\.statements": ("", "set what is wanted for the user: ALTER ROLE … SET …"),
    r"database\.sslpassword": ("", "give a key without a password"),
    r"database\.sslfactory": ("", "use database.sslrootcert, database.sslcert and database.sslkey"),
    r"replica\.identity\.autoset\.values": ("", "set it in the database: ALTER TABLE … REPLICA IDENTITY …"),
    r"notification\.enabled\.channels": ("", "progress is in the metrics"),
}  # fmt: skip
"""Pattern of the key to the value that changes nothing (`""`: none does), and what to do instead."""


def refused_keys(props: Mapping[str, object]) -> dict[str, str]:
    """What is wrong with each key that asks for events which this connector does not make.

    Example:
        >>> refused_keys({"include.schema.comments": "false", "column.mask.with.5.chars": "public.users.name"})
        {'column.mask.with.5.chars': 'column.mask.with.5.chars is not supported: leave columns out with column.exclude.list, or use MaskField behind ExtractNewRecordState'}
    """  # noqa: E501 - what the call returns
    refused: dict[str, str] = {}
    for key, value in props.items():
        for pattern, (unchanged, instead) in REFUSED.items():
            if re.fullmatch(pattern, key) and str(value).strip().lower() not in ("", unchanged.lower()):
                allowed = f"; allowed is {unchanged}" if unchanged else ""
                refused[key] = f"{key} is not supported{allowed}: {instead}"
    return refused
