"""The cycle of `jetblack-ksql-dbapi`: jetblack_cycle.py URL; prints what each call gave as one JSON object.

Runs in that package's own environment. `connect` of its version 0.1.0 fails before it sends anything, since the wheel
lacks its grammar; its client works.
"""

import asyncio
import json
import sys

from jetblack_ksql_dbapi import AsyncKsqlDbClient

STATEMENTS = """
CREATE STREAM s (k STRING KEY, v INT) WITH (kafka_topic='s', value_format='JSON', partitions=1);
CREATE TABLE t AS SELECT k, COUNT(*) AS n FROM s GROUP BY k;
"""
PULL = "SELECT * FROM t WHERE k = 'a';"


async def main() -> None:
    client = AsyncKsqlDbClient(sys.argv[1])
    found = {"info": await client.info(), "health": await client.healthcheck()}
    found["created"] = await client.ksql(STATEMENTS)
    found["inserted"] = [ack async for ack in client.inserts_stream("s", [{"K": "a", "V": 1}, {"K": "a", "V": 2}])]
    while not (pulled := [row async for row in client.query_stream(PULL)]) or pulled[0]["N"] < 2:
        await asyncio.sleep(0.05)
    found["pulled"] = pulled
    push = client.query_stream("SELECT v FROM s EMIT CHANGES LIMIT 2;", properties={"auto.offset.reset": "earliest"})
    found["pushed"] = [row async for row in push]
    found["tables"] = await client.ksql("LIST TABLES;")
    found["described"] = await client.ksql("DESCRIBE t;")
    query_id = found["described"][0]["sourceDescription"]["writeQueries"][0]["id"]
    found["status"] = await client.queury_status(found["created"][0]["commandId"])
    found["terminated"] = await client.ksql(f"TERMINATE {query_id};")
    found["closed"] = await client.close_query("nope")
    try:
        await client.ksql("DROP TABLE nope;")
    except Exception as error:
        found["refused"] = [type(error).__name__, str(error)]
    await client.close()
    print(json.dumps(found))


asyncio.run(main())
