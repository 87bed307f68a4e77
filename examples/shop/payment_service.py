"""Payments as a service of another make: a process with a PostgreSQL of its own, which no application runs.

Commands come to it by HTTP, each under its id; what it answers goes into the outbox, in the transaction of its change.
It is slow, fails, and answers twice, by chance. `granian --interface asgi payment_service:app` runs it.
"""

import asyncio
import os
from random import Random
from typing import Any
from urllib.parse import unquote

import msgspec
import psycopg
from payments import decide, evolve
from shop_messages import PAYMENT
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from hayase.patterns import Reply, outbox

DATABASE = os.environ["PAYMENTS_DATABASE"]
chance = Random(int(os.environ.get("PAYMENTS_SEED", "1")))
with psycopg.connect(DATABASE) as connection:
    connection.execute("CREATE TABLE IF NOT EXISTS payments (order_id text PRIMARY KEY, cents bigint NOT NULL)")
    connection.execute("CREATE TABLE IF NOT EXISTS replies (command_id text PRIMARY KEY, reply text NOT NULL)")
    outbox.create_table(connection)


def settle(event: dict[str, str], body: bytes, times: int) -> None:
    """Answer a command; a repeated id gets the reply that it had, and one that was undone before is refused."""
    order, command_id = event["subject"], event["id"]
    cause = {"correlation_id": event.get("correlationid"), "causation_id": command_id}
    with psycopg.connect(DATABASE) as connection:
        connection.execute("SELECT pg_advisory_xact_lock(hashtext(%s))", [order])  # one command of an order at a time
        if undone := event.get("undoes"):
            reply_of(connection, order, undone, status="rejected", reason="it was undone before")
        if (reply := reply_of(connection, order, command_id)) is None:
            row = connection.execute("SELECT cents FROM payments WHERE order_id = %s", [order]).fetchone()
            paid = row[0] if row else 0
            events = decide(PAYMENT.command_types.decode(event["type"], body), paid)
            for each in events:
                paid = evolve(paid, each)
                outbox.publish(connection, "payment-events", order, each, **cause)
            sql = "INSERT INTO payments VALUES (%s, %s) ON CONFLICT (order_id) DO UPDATE SET cents = excluded.cents"
            connection.execute(sql, [order, paid])
            reply = reply_of(connection, order, command_id, status="accepted", events=len(events))
        for _ in range(times):
            outbox.publish(connection, "payment-replies", order, reply, event_type="Reply", **cause)


def reply_of(connection: psycopg.Connection, order: str, command_id: str, **fields: Any) -> str | None:
    """The reply to a command; if there is none, it is made of the fields that are given."""
    if fields:
        reply = Reply(aggregate="payment", aggregate_id=order, command_id=command_id, **fields)
        sql = "INSERT INTO replies VALUES (%s, %s) ON CONFLICT DO NOTHING"
        connection.execute(sql, [command_id, msgspec.json.encode(reply).decode()])
    row = connection.execute("SELECT reply FROM replies WHERE command_id = %s", [command_id]).fetchone()
    return row[0] if row else None


async def receive(request: Request) -> Response:
    event = {name[3:]: unquote(value) for name, value in request.headers.items() if name.startswith("ce-")}
    fault = chance.choices(["", "slow", "fails before", "fails after", "answers twice"], [6, 1, 1, 1, 1])[0]
    if fault == "slow":
        await asyncio.sleep(chance.uniform(0.2, 1.5))
    if fault == "fails before":
        return Response(status_code=503)
    await run_in_threadpool(settle, event, await request.body(), 2 if fault == "answers twice" else 1)
    return Response(status_code=500 if fault == "fails after" else 200)


app = Starlette(routes=[Route("/", receive, methods=["POST"])])
