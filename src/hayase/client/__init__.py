"""A client of the SQL server (`hayase server`), and of ksqlDB: statements, queries, records.

Example:
    >>> from hayase.client import SqlClient
    >>> with SqlClient("http://127.0.0.1:8088") as client:  # doctest: +SKIP
    ...     client.execute("CREATE STREAM s (id INT KEY, v STRING) WITH (kafka_topic='s', value_format='JSON');")
    ...     client.insert("s", [{"id": 1, "v": "a"}])
    ...     for row in client.query("SELECT * FROM s EMIT CHANGES LIMIT 1;"):
    ...         print(row["V"])
"""

from hayase.client.async_client import AsyncRows as AsyncRows
from hayase.client.async_client import AsyncSqlClient as AsyncSqlClient
from hayase.client.errors import SqlServerError as SqlServerError
from hayase.client.sync_client import Rows as Rows
from hayase.client.sync_client import SqlClient as SqlClient
