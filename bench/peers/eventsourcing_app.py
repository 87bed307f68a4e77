"""The accounts of `bench/ours/accounts.py` with the library `eventsourcing`, on PostgreSQL.

Each command loads an account, deposits, and saves the event in a transaction of its own, as the library's users do.

Where the database is is in the library's own environment variables (`POSTGRES_…`). The standard output is one line of
JSON: how many commands, and in how many seconds.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from concurrent.futures import ThreadPoolExecutor
from uuid import NAMESPACE_URL, UUID, uuid5

from eventsourcing.application import AggregateNotFoundError, Application
from eventsourcing.domain import Aggregate, event


class Account(Aggregate):
    """An account; overdrafts are allowed."""

    @event("Opened")
    def __init__(self, name: str) -> None:
        self.name = name
        self.cents = 0

    @staticmethod
    def create_id(name: str) -> UUID:
        return uuid5(NAMESPACE_URL, f"/accounts/{name}")

    @event("Deposited")
    def deposit(self, cents: int) -> None:
        self.cents += cents


class Accounts(Application):
    """Takes commands."""

    def deposit(self, name: str, cents: int) -> None:
        try:
            account = self.repository.get(Account.create_id(name))
        except AggregateNotFoundError:
            account = Account(name)
        account.deposit(cents)
        self.save(account)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--aggregates", type=int, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--threads", type=int, required=True)
    given = parser.parse_args()
    application = Accounts(env={**os.environ, "PERSISTENCE_MODULE": "eventsourcing.postgres"})
    application.deposit("warm-up", 1)

    def work(thread: int) -> int:
        done, deadline = 0, begun + given.seconds
        while time.perf_counter() < deadline:
            number = done * given.threads + thread  # no two threads have an account in common: nothing conflicts
            application.deposit(f"a{number % given.aggregates}", number % 100)
            done += 1
        return done

    begun = time.perf_counter()
    with ThreadPoolExecutor(given.threads) as pool:
        commands = sum(pool.map(work, range(given.threads)))
    took_s = time.perf_counter() - begun
    application.close()
    print(json.dumps({"commands": commands, "seconds": took_s}))


if __name__ == "__main__":
    main()
