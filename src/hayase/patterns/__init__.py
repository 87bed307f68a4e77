"""Patterns on an event log: event sourcing with deciders, commands and replies, history, reactions, deadlines.

Everything for users can be imported from here. Names are loaded when first used: a worker loads only the processor.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hayase.patterns import outbox as outbox
    from hayase.patterns.app import PatternsApp as PatternsApp
    from hayase.patterns.command_inbox import CommandInbox as CommandInbox
    from hayase.patterns.commands import CommandClient as CommandClient
    from hayase.patterns.commands import CommandOutcomeUnknownError as CommandOutcomeUnknownError
    from hayase.patterns.decider import Decider as Decider
    from hayase.patterns.decider import Rejected as Rejected
    from hayase.patterns.decider_test_case import DeciderTestCase as DeciderTestCase
    from hayase.patterns.erasure import ErasureStatus as ErasureStatus
    from hayase.patterns.event_sourced import EventSourced as EventSourced
    from hayase.patterns.event_sourced import FailedCommand as FailedCommand
    from hayase.patterns.history import EventHistory as EventHistory
    from hayase.patterns.inbox_records import create_inbox as create_inbox
    from hayase.patterns.inbox_records import inbox as inbox
    from hayase.patterns.personal_data import Personal as Personal
    from hayase.patterns.reactions import AggregateCommand as AggregateCommand
    from hayase.patterns.reactions import CommandTarget as CommandTarget
    from hayase.patterns.reactions import Deadline as Deadline
    from hayase.patterns.reactions import Reactions as Reactions
    from hayase.patterns.reactions import deadline as deadline
    from hayase.patterns.read_models.read_model import ReadModel as ReadModel
    from hayase.patterns.read_models.read_model import ReadModelBehindError as ReadModelBehindError
    from hayase.patterns.read_models.rows import Delete as Delete
    from hayase.patterns.read_models.rows import TableChange as TableChange
    from hayase.patterns.read_models.rows import Upsert as Upsert
    from hayase.patterns.read_models.sources import TableSource as TableSource
    from hayase.patterns.read_models.targets import PostgresTable as PostgresTable
    from hayase.patterns.read_models.targets import SqliteTable as SqliteTable
    from hayase.patterns.read_models.test_case import ReadModelTestCase as ReadModelTestCase
    from hayase.patterns.recorded_events import RecordedEvent as RecordedEvent
    from hayase.patterns.recorded_events import UnknownEvent as UnknownEvent
    from hayase.patterns.replies import EventPosition as EventPosition
    from hayase.patterns.replies import Reply as Reply
    from hayase.patterns.saga.definition import Retries as Retries
    from hayase.patterns.saga.definition import SagaState as SagaState
    from hayase.patterns.saga.definition import Step as Step
    from hayase.patterns.saga.saga import CancelSaga as CancelSaga
    from hayase.patterns.saga.saga import RetrySaga as RetrySaga
    from hayase.patterns.saga.saga import Saga as Saga
    from hayase.patterns.state_rows import AggregateState as AggregateState
    from hayase.patterns.subject_keys import SubjectKeys as SubjectKeys

_MODULE_OF = {
    "AggregateCommand": "reactions",
    "AggregateState": "state_rows",
    "CancelSaga": "saga.saga",
    "CommandClient": "commands",
    "CommandInbox": "command_inbox",
    "CommandOutcomeUnknownError": "commands",
    "CommandTarget": "reactions",
    "create_inbox": "inbox_records",
    "Deadline": "reactions",
    "deadline": "reactions",
    "Decider": "decider",
    "DeciderTestCase": "decider_test_case",
    "Delete": "read_models.rows",
    "ErasureStatus": "erasure",
    "EventHistory": "history",
    "EventPosition": "replies",
    "EventSourced": "event_sourced",
    "FailedCommand": "event_sourced",
    "inbox": "inbox_records",
    "outbox": "",
    "PatternsApp": "app",
    "Personal": "personal_data",
    "PostgresTable": "read_models.targets",
    "Reactions": "reactions",
    "ReadModel": "read_models.read_model",
    "ReadModelBehindError": "read_models.read_model",
    "ReadModelTestCase": "read_models.test_case",
    "RecordedEvent": "recorded_events",
    "Rejected": "decider",
    "Reply": "replies",
    "Retries": "saga.definition",
    "RetrySaga": "saga.saga",
    "Saga": "saga.saga",
    "SagaState": "saga.definition",
    "SqliteTable": "read_models.targets",
    "Step": "saga.definition",
    "SubjectKeys": "subject_keys",
    "TableChange": "read_models.rows",
    "TableSource": "read_models.sources",
    "UnknownEvent": "recorded_events",
    "Upsert": "read_models.rows",
}

__all__ = sorted(_MODULE_OF)  # noqa: PLE0605


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'hayase.patterns' has no attribute {name!r}")
    module = importlib.import_module(f"hayase.patterns.{_MODULE_OF[name] or name}")
    attribute = getattr(module, name) if _MODULE_OF[name] else module
    globals()[name] = attribute
    return attribute


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
