"""Reactions and senders: refused at build where it cannot work, described otherwise."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest

from hayase import StreamsBuilder
from hayase.cli.main import run_cli
from hayase.core.errors import TopologyError
from hayase.patterns import (
    AggregateCommand,
    AggregateState,
    CommandTarget,
    Deadline,
    Decider,
    EventSourced,
    Rejected,
    Saga,
    Step,
    deadline,
)


@dataclass
class Pay:
    cents: int


@dataclass
class Reserve:
    order: str


@dataclass
class Paid:
    cents: int


@dataclass
class Refused:
    reason: str


@dataclass
class Refunded:
    """Recorded by earlier programs only."""


def decide(command: Pay, paid: int) -> list[Paid | Refused] | Rejected:
    return [Paid(command.cents)] if command.cents else [Refused("nothing to pay")]


def evolve(paid: int, event: Paid | Refused | Refunded) -> int:
    return paid


Payments = EventSourced[Pay, Paid | Refused | Refunded, int]


def payments(name: str = "payments", refusals: tuple[type, ...] = ()) -> Payments:
    return EventSourced(name, Decider(0, decide, evolve), refusals=refusals)


def build(*parts: EventSourced | Saga) -> None:  # type: ignore[type-arg]
    builder = StreamsBuilder()
    for part in parts:
        part.add_to(builder)
    builder.build()


def refused(*parts: EventSourced | Saga) -> str:  # type: ignore[type-arg]
    with pytest.raises(TopologyError) as raised:
        build(*parts)
    return f"{raised.value.condition}: {raised.value.message}"


def step(to: CommandTarget[Pay], **more: object) -> Step:
    return Step(name="pay", to=to, action=lambda saga: to.command(saga.id, Pay(1)), **more)  # type: ignore[arg-type]


def test_a_reaction_to_an_event_that_decide_never_gives_is_refused_when_the_topology_is_built() -> None:
    aggregate = payments()

    @aggregate.on(Refunded)
    def back(event: Refunded, own: AggregateState[int]) -> None:
        return None

    assert refused(aggregate).startswith("INVALID_REACTION: aggregate 'payments' reacts to Refunded by 'back'")


def test_a_step_that_waits_for_an_event_that_the_aggregate_of_its_target_does_not_emit_is_refused() -> None:
    saga = Saga("checkout", Reserve, [step(CommandTarget("payments", [Pay]), success=[Reserve])])
    assert "step 'pay' waits for Reserve, which aggregate 'payments' does not emit" in refused(payments(), saga)
    build(saga)  # the aggregate is in another program


def test_a_command_that_its_addressee_does_not_have_is_refused() -> None:
    aggregate, other = payments(), CommandTarget("payments", [Reserve])

    @aggregate.on(Paid)
    def again(event: Paid, own: AggregateState[int]) -> AggregateCommand:
        return other.command("1", Reserve("1"))

    assert "sends Reserve to 'payments', whose commands are Pay" in refused(aggregate)


def test_a_refusal_that_nothing_answers_is_refused_where_its_senders_are_in_the_program() -> None:
    saga = Saga("checkout", Reserve, [step(CommandTarget("payments", [Pay]), success=[Paid])])
    aggregate = payments(refusals=(Refused,))
    assert refused(aggregate, saga).startswith(
        "REFUSAL_UNANSWERED: aggregate 'payments' refuses with the event Refused"
    )
    build(payments(refusals=(Refused,)))  # its senders are in other programs
    answered = Saga("checkout", Reserve, [step(CommandTarget("payments", [Pay]), success=[Paid], refusal=[Refused])])
    build(payments(refusals=(Refused,)), answered)


def test_a_refusal_has_to_be_an_event_of_the_aggregate() -> None:
    with pytest.raises(TopologyError, match="is no event of aggregate 'payments'"):
        payments(refusals=(Reserve,))


PROGRAM = Path(__file__).with_name("described_program.py")


def test_describe_shows_which_commands_follow_from_which_events(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli(["describe", f"{PROGRAM}:orders", "--patterns"]) == 0
    assert capsys.readouterr().out == (
        "Aggregate order:\n"
        "  commands: Pay\n"
        "  events: Paid, Refused, Refunded\n"
        "  Paid --> stock: Reserve (reserve, at once or at a deadline)\n"
        "Saga checkout, version 1:\n"
        "  started by: Reserve\n"
        "  1 pay --> order: Pay; success Paid; refusal Refused; undo Pay\n"
        "  2 keep (pivot) --> stock: Reserve\n"
        "To look at:\n"
        "  'stock' is in none of these programs, and gets commands of order.Paid, checkout.keep: name its program with "
        "--with\n"
    )


def test_describe_reports_what_is_wrong_across_applications(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli(["describe", f"{PROGRAM}:orders", "--patterns", "--with", f"{PROGRAM}:stock"]) == 1
    out = capsys.readouterr().out
    assert (
        "Refused:\n  the reaction 'reserve' of 'order' (Paid) sends Reserve to 'stock', whose commands are Pay" in out
    )


def test_describe_draws_patterns_as_a_flowchart(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli(["describe", f"{PROGRAM}:orders", "--patterns", "--format", "mermaid"]) == 0
    out = capsys.readouterr().out
    assert out.startswith('flowchart LR\n  p0["order"]\n  p1{{"checkout"}}\n  p2[/"stock"/]\n')
    assert '  p0 -- "Paid: Reserve" --> p2\n' in out and '  p1 -. "pay: Pay" .-> p0\n' in out


def test_a_rejection_that_no_reaction_can_see_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    run_cli(["describe", f"{PROGRAM}:chain", "--patterns"])
    out = capsys.readouterr().out
    assert "the reaction 'pay_next' of 'first' to Paid sends Pay to 'second', which can reject them" in out


def reserving(stock: CommandTarget[Reserve]) -> Payments:
    """An aggregate whose reaction calls another function."""
    aggregate = payments("order")

    def made(order: str) -> AggregateCommand:
        return stock.command("book", Reserve(order))

    @aggregate.on(Paid)
    def reserve(event: Paid, own: AggregateState[int]) -> list[AggregateCommand | Deadline]:
        return [made(own.id), deadline(timedelta(minutes=1), made(own.id))]

    return aggregate


def test_describe_does_not_ask_for_topics_that_the_start_of_an_aggregate_makes(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HAYASE_LOG_DIR", str(tmp_path))
    assert run_cli(["topics", "create", "other"]) == 0
    run_cli(["describe", f"{PROGRAM}:orders"])
    out = capsys.readouterr().out
    assert "  order-events: read and written, not made yet; the first start makes it\n" in out
