"""Interactive queries v2: what is asked of each partition, how far it has to be, and why it may not answer."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.query.local_app import START_MS, LocalApp, rows_of, totals_after

from hayase import (
    Consumed,
    FailureReason,
    KeyQuery,
    Materialized,
    MultiVersionedKeyQuery,
    Position,
    PositionBound,
    Query,
    RangeQuery,
    Serdes,
    SessionWindows,
    StateQueryRequest,
    StateQueryResult,
    Stores,
    StreamsBuilder,
    TimestampedKeyQuery,
    TimestampedRangeQuery,
    ValueAndTimestamp,
    VersionedKeyQuery,
    Window,
    Windowed,
    WindowKeyQuery,
    WindowRangeQuery,
)
from hayase.core.errors import StateError, UnknownStoreError
from hayase.query.local_folders import state_folders
from hayase.query.queries import QueriedStore


def ask(local: LocalApp, query: Query[Any], store: str = "users") -> StateQueryResult[Any]:
    return local.app.query(StateQueryRequest.in_store(store).with_query(query))


def pairs(result: StateQueryResult[Any]) -> list[Any]:
    return [pair for each in result.partition_results.values() for pair in each.result or ()]


def only(result: StateQueryResult[Any]) -> Any:
    found = result.only_partition_result
    return found.result if found is not None else None


@pytest.mark.long
def test_a_key_is_answered_by_its_own_partition_alone(local: LocalApp) -> None:
    local.epoch(rows_of(0))
    result = ask(local, KeyQuery.with_key("u3").skip_cache())
    assert only(result) == totals_after(0)["u3"]
    assert sorted(result.partition_results) == [0, 1, 2]
    assert [each.is_success for each in result.partition_results.values()] == [True] * 3
    assert only(ask(local, KeyQuery.with_key("nobody"))) is None


@pytest.mark.long
def test_a_timestamped_key_query_has_the_timestamp_too(local: LocalApp) -> None:
    local.epoch(rows_of(0))
    assert only(ask(local, TimestampedKeyQuery.with_key("u3"))) == ValueAndTimestamp(totals_after(0)["u3"], START_MS)


def test_a_range_has_its_bounds_in_it_and_goes_by_key_in_each_partition(local: LocalApp) -> None:
    local.epoch(rows_of(0, users=9))
    expected = totals_after(0, users=9)
    upward = ask(local, RangeQuery.with_range("u2", "u5"))
    assert dict(pairs(upward)) == {name: expected[name] for name in ("u2", "u3", "u4", "u5")}
    downward = ask(local, RangeQuery.with_range("u2", "u5").with_descending_keys())
    for partition, result in upward.partition_results.items():
        assert result.result == tuple(sorted(result.result or ()))
        assert downward.partition_results[partition].result == tuple(reversed(result.result or ()))
    assert len(pairs(ask(local, RangeQuery.with_lower_bound("u7")))) == 2
    assert len(pairs(ask(local, RangeQuery.with_upper_bound("u1")))) == 2
    stamped = pairs(ask(local, TimestampedRangeQuery.with_no_bounds().with_ascending_keys()))
    assert {name: value.value for name, value in stamped} == expected


def test_windows_of_a_key_and_of_all_keys_are_found_by_their_start(local: LocalApp) -> None:
    local.epoch(rows_of(0, users=2))
    begin = START_MS - START_MS % 10_000
    of_a_key = ask(local, WindowKeyQuery.with_key_and_window_start_range("u1", begin, begin + 10_000), "hourly")
    assert pairs(of_a_key) == [(begin, ValueAndTimestamp({"n": 1}, START_MS))]
    of_all = ask(local, WindowRangeQuery.with_window_start_range(begin, begin), "hourly")
    assert sorted(pairs(of_all)) == [
        (Windowed(name, Window(begin, begin + 10_000)), ValueAndTimestamp({"n": 1}, START_MS)) for name in ("u0", "u1")
    ]
    assert pairs(ask(local, WindowRangeQuery.with_window_start_range(begin + 1, begin + 9), "hourly")) == []


def test_sessions_of_a_key_and_versions_of_a_key_are_found(tmp_path: Path) -> None:
    text, amounts = Serdes.string(), Serdes.json()
    builder = StreamsBuilder()
    orders = builder.stream("orders", Consumed.with_(text, amounts))
    gap = SessionWindows.of_inactivity_gap_with_no_grace(timedelta(seconds=5))
    orders.group_by_key().windowed_by(gap).count(Materialized.as_("visits"))
    history = Stores.persistent_versioned_key_value_store("last", timedelta(hours=1))
    orders.to_table(Materialized.as_(history))
    local = LocalApp(tmp_path, builder.build())
    try:
        local.put([("ada", "tea", 1)])
        local.put([("ada", "pen", 2)], time_ms=START_MS + 2_000)
        local.epoch()
        sessions = pairs(ask(local, WindowRangeQuery.with_key("ada"), "visits"))
        assert sessions == [(Windowed("ada", Window(START_MS, START_MS + 2_000)), 2)]
        latest = VersionedKeyQuery.with_key("ada")
        assert only(ask(local, latest, "last")).value == {"item": "pen", "amount": 2}
        assert only(ask(local, latest.as_of(START_MS + 1_000), "last")).value == {"item": "tea", "amount": 1}
        assert only(ask(local, latest.as_of(START_MS - 1), "last")) is None
        several = MultiVersionedKeyQuery.with_key("ada")
        pen, tea = pairs(ask(local, several.with_descending_timestamps(), "last"))
        assert (pen.value["item"], pen.timestamp_ms, pen.valid_to_ms) == ("pen", START_MS + 2_000, None)
        assert (tea.value["item"], tea.timestamp_ms, tea.valid_to_ms) == ("tea", START_MS, START_MS + 2_000)
        assert pairs(ask(local, several.with_ascending_timestamps().from_time(START_MS), "last")) == [tea, pen]
        between = datetime.fromtimestamp(START_MS / 1000 + 1, UTC)
        assert pairs(ask(local, several.to_time(between), "last")) == [tea]
        assert pairs(ask(local, several.from_time(START_MS + 2_000), "last")) == [pen]
        assert pairs(ask(local, several.to_time(START_MS - 1), "last")) == []
    finally:
        local.close()


@pytest.mark.long
@pytest.mark.parametrize(
    ("query", "store"),
    [
        (KeyQuery.with_key("u1"), "hourly"),
        (TimestampedKeyQuery.with_key("u1"), "hourly"),
        (RangeQuery.with_no_bounds(), "hourly"),
        (TimestampedRangeQuery.with_no_bounds(), "hourly"),
        (WindowKeyQuery.with_key_and_window_start_range("u1", 0, 1), "users"),
        (WindowRangeQuery.with_window_start_range(0, 1), "users"),
        (WindowRangeQuery.with_key("u1"), "hourly"),
        (VersionedKeyQuery.with_key("u1"), "users"),
        (MultiVersionedKeyQuery.with_key("u1"), "users"),
    ],
)
def test_a_query_for_another_kind_of_store_is_an_unknown_query_type(
    local: LocalApp, query: Query[Any], store: str
) -> None:
    local.epoch(rows_of(0))
    for result in ask(local, query, store).partition_results.values():
        assert result.failure_reason is FailureReason.UNKNOWN_QUERY_TYPE
        assert store in result.failure_message
        with pytest.raises(StateError, match="UNKNOWN_QUERY_TYPE"):
            _ = result.result


@pytest.mark.parametrize(
    "made", [KeyQuery.with_key, VersionedKeyQuery.with_key, MultiVersionedKeyQuery.with_key, WindowRangeQuery.with_key]
)
def test_no_row_has_none_as_its_key_so_a_query_of_it_is_refused_when_it_is_made(made: Any) -> None:
    with pytest.raises(StateError, match="with_key takes a key") as raised:
        made(None)
    assert raised.value.condition == "INVALID_QUERY"


@pytest.mark.long
def test_only_the_partitions_asked_for_answer_and_one_that_is_not_there_says_so(local: LocalApp) -> None:
    local.epoch(rows_of(0))
    request = StateQueryRequest.in_store("users").with_query(RangeQuery.with_no_bounds())
    results = local.app.query(request.with_partitions({1, 7})).partition_results
    assert results[1].is_success
    assert results[7].failure_reason is FailureReason.DOES_NOT_EXIST
    assert sorted(local.app.query(request.with_partitions({1}).with_all_partitions()).partition_results) == [0, 1, 2]


def test_an_answer_has_the_position_of_its_epoch_and_bounds_the_next_query_of_any_store(local: LocalApp) -> None:
    local.epoch(rows_of(0))
    first = ask(local, RangeQuery.with_no_bounds())
    ends = local.plan_epoch().ranges["orders"]
    assert first.position == Position({"orders": {p: start - 1 for p, (start, _) in ends.items() if start}})
    request = StateQueryRequest.in_store("items").with_query(RangeQuery.with_no_bounds())
    bounded = local.app.query(request.with_position_bound(PositionBound.at(first.position)))
    assert all(each.is_success for each in bounded.partition_results.values())


@pytest.mark.long
def test_a_state_that_is_not_up_to_the_bound_does_not_answer_and_says_how_far_it_is(local: LocalApp) -> None:
    local.epoch(rows_of(0))
    seen = ask(local, RangeQuery.with_no_bounds()).position
    partition, offset = next(iter(seen.offsets["orders"].items()))
    bound = PositionBound.at(seen.with_component("orders", partition, offset + 1))
    request = StateQueryRequest.in_store("users").with_query(RangeQuery.with_no_bounds()).with_position_bound(bound)
    for result in local.app.query(request).partition_results.values():
        assert result.failure_reason is FailureReason.NOT_UP_TO_BOUND
        assert f"at offset {offset} of orders-{partition}, and {offset + 1} is asked for" in result.failure_message
        assert result.position == seen
    local.epoch(rows_of(1, users=20))
    assert all(each.is_success for each in local.app.query(request).partition_results.values())


@pytest.mark.long
def test_what_a_query_of_ones_own_raises_is_the_failure_of_that_partition(local: LocalApp) -> None:
    class FirstKey(Query[str]):
        def answer(self, store: QueriedStore) -> str:
            view: Any = store.view()
            return str(next(key for key, _ in view.all()))

    local.epoch([("ada", "book", 1)])
    result = ask(local, FirstKey())
    failures = [each for each in result.partition_results.values() if not each.is_success]
    assert [each.result for each in result.partition_results.values() if each.is_success] == ["ada"]
    assert [each.failure_reason for each in failures] == [FailureReason.STORE_EXCEPTION] * 2
    assert "StopIteration" in failures[0].failure_message


@pytest.mark.long
def test_active_partitions_answer_while_the_application_is_in_mid_epoch(local: LocalApp) -> None:
    local.epoch(rows_of(0))
    local.put(rows_of(1))
    record = local.plan_epoch()
    first = next(each for each in local.plan.bundles if each.level == 0)
    local.run_bundle(first.id, record, [])
    request = StateQueryRequest.in_store("users").with_query(RangeQuery.with_no_bounds()).require_active()
    results = local.app.query(request.enable_execution_info()).partition_results
    assert all(each.is_success for each in results.values())
    told = "\n".join(line for each in results.values() for line in each.execution_info)
    assert "RangeQuery on task" in told and "after epoch 1" in told and "after epoch 0" in told


def test_before_the_first_epoch_partitions_are_there_and_empty(local: LocalApp) -> None:
    request = StateQueryRequest.in_store("users").with_query(KeyQuery.with_key("u1"))
    results = local.app.query(request).partition_results
    assert results and {(each.failure_reason, each.result) for each in results.values()} == {(None, None)}


def test_a_state_that_is_not_on_this_machine_is_not_present(local: LocalApp) -> None:
    local.epoch(rows_of(0))
    local.close()
    shutil.rmtree(state_folders(local.app.config).disk / "state")
    request = StateQueryRequest.in_store("users").with_query(KeyQuery.with_key("u1"))
    results = local.app.query(request).partition_results
    assert {each.failure_reason for each in results.values()} == {FailureReason.NOT_PRESENT}


def test_an_unknown_store_and_what_is_no_query_are_errors_that_say_so(local: LocalApp) -> None:
    with pytest.raises(UnknownStoreError, match="nothing"):
        ask(local, KeyQuery.with_key("u1"), "nothing")
    with pytest.raises(StateError, match="NOT_A_QUERY"):
        StateQueryRequest.in_store("users").with_query("u1")  # type: ignore[arg-type]


@pytest.mark.long
def test_several_partitions_with_a_result_are_not_one(local: LocalApp) -> None:
    local.epoch(rows_of(0, users=9))
    with pytest.raises(StateError, match="SEVERAL_RESULTS"):
        _ = ask(local, RangeQuery.with_no_bounds()).only_partition_result


positions = st.dictionaries(
    st.sampled_from(["a", "b"]), st.dictionaries(st.integers(0, 2), st.integers(0, 5), min_size=1)
).map(Position)


@given(positions, positions)
def test_merged_positions_cover_both_and_nothing_that_is_farther_than_both(first: Position, second: Position) -> None:
    merged = first.merge(second)
    assert merged.covers(first) and merged.covers(second)
    assert merged == second.merge(first)
    for topic, partitions in merged.offsets.items():
        for partition, offset in partitions.items():
            assert offset in (first.offset(topic, partition), second.offset(topic, partition))
