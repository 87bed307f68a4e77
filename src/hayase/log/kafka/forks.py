"""What must not cross a fork: Kafka clients.

A client's threads do not exist in a forked child. Closing or freeing the client there joins threads that are not there,
which waits forever or ends the process.
"""

from __future__ import annotations

import ctypes
import os
import weakref
from typing import TypeVar

from confluent_kafka import Consumer, Producer

Client = TypeVar("Client")


class ReferableConsumer(Consumer):
    """A consumer that weak references can point to."""


class ReferableProducer(Producer):
    """A producer that weak references can point to."""


class ProcessBound:
    """Something that holds clients. In a forked child it lets go of them, untouched, and makes new ones when used."""

    def __init__(self) -> None:
        _HOLDERS.add(self)

    def forget_clients(self) -> None:
        """Let go of every client without closing it. Called in a child right after the fork."""
        raise AssertionError(f"{type(self).__name__} must say which clients it holds")


_CLIENTS: weakref.WeakSet[object] = weakref.WeakSet()
_HOLDERS: weakref.WeakSet[ProcessBound] = weakref.WeakSet()


def never_freed_in_children(client: Client) -> Client:
    """The client; processes forked from this one keep it forever, whatever holds it.

    Holders alone cannot see to that: a client that nothing holds any more may wait for Python's collector, for instance
    in the traceback of an error, and the collector may come to it in the child.
    """
    _CLIENTS.add(client)
    return client


def _forget_all() -> None:
    for client in list(_CLIENTS):
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(client))
    _CLIENTS.clear()
    for holder in list(_HOLDERS):
        holder.forget_clients()


os.register_at_fork(after_in_child=_forget_all)
