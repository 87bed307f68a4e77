"""Aggregates for the benchmark of patterns: accounts, and a saga of four steps over them."""

from __future__ import annotations

from dataclasses import dataclass

from hayase import StreamsBuilder
from hayase.patterns import CommandTarget, Decider, EventSourced, RecordedEvent, Saga, SagaState, Step
from hayase.patterns.reactions import AggregateCommand


@dataclass(frozen=True)
class Deposit:
    cents: int


@dataclass(frozen=True)
class Withdraw:
    cents: int


@dataclass(frozen=True)
class Deposited:
    cents: int


@dataclass(frozen=True)
class Withdrawn:
    cents: int


def decide(command: Deposit | Withdraw, cents: int) -> list[Deposited | Withdrawn]:
    """What happens: overdrafts are allowed."""
    return [Deposited(command.cents) if isinstance(command, Deposit) else Withdrawn(command.cents)]


def evolve(cents: int, event: Deposited | Withdrawn) -> int:
    """The balance after an event."""
    return cents + (event.cents if isinstance(event, Deposited) else -event.cents)


DECIDER = Decider[Deposit | Withdraw, Deposited | Withdrawn, int](0, decide, evolve)


@dataclass
class AccountRow:
    """A row of the read model: the last change of an account."""

    account: str
    version: int
    cents: int


def account_row(recorded: RecordedEvent[Deposited | Withdrawn]) -> AccountRow:
    """The row after an event."""
    return AccountRow(recorded.aggregate_id, recorded.version, recorded.event.cents)


def accounts() -> EventSourced[Deposit | Withdraw, Deposited | Withdrawn, int]:
    """The aggregate."""
    return EventSourced("account", DECIDER)


@dataclass(frozen=True)
class Transfer:
    """Data of the saga: from two accounts to two others."""

    cents: int


def _step(name: str, to: CommandTarget[Deposit | Withdraw], kind: type[Deposit | Withdraw]) -> Step:
    back = Deposit if kind is Withdraw else Withdraw

    def action(saga: SagaState[Transfer]) -> AggregateCommand:
        return to.command(f"{name}-{saga.id}", kind(saga.data.cents))

    def undo(saga: SagaState[Transfer]) -> AggregateCommand:
        return to.command(f"{name}-{saga.id}", back(saga.data.cents))

    return Step(name=name, to=to, action=action, undo=undo)


def transfers() -> tuple[StreamsBuilder, Saga[Transfer]]:
    """Accounts and the saga in one topology."""
    builder, account = StreamsBuilder(), accounts()
    kinds: list[type[Deposit | Withdraw]] = [Withdraw, Withdraw, Deposit, Deposit]
    saga = Saga("transfer", Transfer, [_step(f"s{number}", account, kind) for number, kind in enumerate(kinds)])
    account.add_to(builder)
    saga.add_to(builder)
    return builder, saga
