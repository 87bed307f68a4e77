"""Payments as a service of another make: a process with a PostgreSQL of its own, which no application runs.

Commands come to it by HTTP, each under its id; events and replies go into the outbox, in the transaction of its change.
`granian --interface asgi payment_service:app` runs it.
"""

import os

import psycopg
from payments import Event, payment
from shop_messages import PAYMENT, Charge, Refund
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from hayase.patterns import CommandInbox

DATABASE = os.environ["PAYMENTS_DATABASE"]
inbox = CommandInbox(PAYMENT)
with psycopg.connect(DATABASE) as connection:
    connection.execute("CREATE TABLE IF NOT EXISTS payments (order_id text PRIMARY KEY, cents bigint NOT NULL)")
    inbox.create_tables(connection)


def settle(headers: dict[str, str], body: bytes) -> None:
    def change(command: Charge | Refund) -> list[Event]:
        sql = "SELECT coalesce(max(cents), 0) FROM payments WHERE order_id = %s"
        events, paid = payment.decider.run(command, connection.execute(sql, [order]).fetchone()[0])
        sql = "INSERT INTO payments VALUES (%s, %s) ON CONFLICT (order_id) DO UPDATE SET cents = excluded.cents"
        connection.execute(sql, [order, paid])
        return events

    order = headers["ce-subject"]
    with psycopg.connect(DATABASE) as connection:
        inbox.answer(connection, headers, body, change)


async def receive(request: Request) -> Response:
    await run_in_threadpool(settle, dict(request.headers), await request.body())
    return Response()


app = Starlette(routes=[Route("/", receive, methods=["POST"])])
