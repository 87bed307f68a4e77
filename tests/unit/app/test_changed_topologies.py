"""A start with another topology on the same checkpoint, as far as it comes before Spark."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import polars as pl
import pytest

from hayase import (
    Consumed,
    HayaseError,
    Materialized,
    Produced,
    Repartitioned,
    Serde,
    Serdes,
    StreamsBuilder,
    StreamsConfig,
    TimeWindows,
    Topology,
    count,
    sum_,
)
from hayase.app.checkpoint import internal_topics_of_all, stored_plan
from hayase.app.plan_switch import check_change, store_lines
from hayase.app.prepare import prepare
from hayase.cli.against import described_against
from hayase.cli.described_topics import described_topics
from hayase.cli.main import run_cli
from hayase.compiler.options import configured
from hayase.core.secrets import Vault
from hayase.log.config import log_config
from hayase.log.open import open_log
from hayase.log.protocol import OutputBatch
from hayase.query.checkpoint import find_checkpoint, subtopology_of_store
from hayase.query.numbered_plans import PLANS_FOLDER, plan_numbers, publish_plan, read_plan
from hayase.runtime.wire.app_spec import AppSpec
from hayase.runtime.wire.endpoints import RunEndpoints
from hayase.state.changelog.changelog import Changelog
from hayase.state.changelog.redone_epochs import REDO_FOLDER, RedoneEpochs
from hayase.state.delta.delta import Delta
from hayase.storage.open import open_blobs
from hayase.task.epoch_record import EpochRecord, Epochs, Program, done_name, record_name

READ = Consumed.with_(Serdes.string(), Serdes.json(schema={"id": pl.Int64}))


class Shop:
    """An application that is started again and again, without Spark; its epochs are made here."""

    def __init__(self, folder: Path) -> None:
        where = {"state.dir": str(folder / "state"), "log.dir": str(folder / "log")}
        self.config = StreamsConfig({"application.id": "shop", "num.stream.threads": 2, **where})
        self.log = open_log(log_config(self.config))
        for topic in ("in", "more", "out"):
            self.log.create_topic(topic, 2)
        self.blobs = open_blobs(self.config.checkpoint_dir, fsync=False)
        self._endpoints = RunEndpoints(str(folder / "control"), str(folder / "sockets"))

    def start(
        self, topology: Topology, *, delete_removed_stores: bool = False, unfinished: int | None = None
    ) -> AppSpec:
        """What workers would get."""
        self.changes: list[str] = []
        return prepare(
            configured(topology, self.config), self.config, self.blobs, self._endpoints, {},
            delete_removed_stores=delete_removed_stores,
            on_change=lambda difference: self.changes.extend(store_lines(difference)), unfinished=unfinished,
        )  # fmt: skip

    def epoch(self, app: AppSpec, *, done: bool = True) -> EpochRecord:
        """An epoch without input, as the planner would record it."""
        checkpoint = find_checkpoint(self.blobs, "shop")
        assert checkpoint is not None
        last = max(checkpoint.epochs.recorded(), default=-1)
        before = checkpoint.epochs.record(last)
        ranges = {topic: dict.fromkeys(range(count), (0, 0)) for topic, count in app.plan.topics.items()}
        ids = {name: info.topic_id for name, info in self.log.describe(list(app.plan.topics)).items()}
        number = {"numbered": app.plan_number} if app.plan_number else {}
        record = EpochRecord(
            last + 1, app.checkpoint_id, app.plan.digest, last + 2, ranges, ids, before.digest if before else "",
            Program.of(app.plan, app.term), **number,
        )  # fmt: skip
        self.blobs.put_if_absent(record_name(record.epoch), record.to_bytes())
        if done:
            self.blobs.put_if_absent(done_name(record.epoch), record.digest.encode())
        return record

    def delta(self, bundle: str, record: EpochRecord) -> None:
        """A bundle has completed an epoch."""
        delta = Delta("shop", record.checkpoint_id, bundle, record.epoch, record.digest, -1, "")
        Changelog(self.blobs, bundle).publish(delta)

    def put(self, topic: str) -> None:
        writer = self.log.writer()
        writer.append([OutputBatch(topic, [b"k"], [b"{}"], [0])])
        writer.close()

    def against(self, topology: Topology) -> tuple[str, bool]:
        topology = configured(topology, self.config)
        topics = described_topics(topology, self.config)
        lines, refused = described_against(topology, self.config, self.config.checkpoint_dir, topics)
        return "\n".join(lines), refused

    def refused(self, topology: Topology) -> HayaseError:
        with pytest.raises(HayaseError) as raised:
            self.start(topology)
        return raised.value


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    made = Shop(tmp_path)
    yield made
    made.log.close()
    shutil.rmtree(tmp_path, ignore_errors=True)


def built(*parts: Callable[[StreamsBuilder], Any]) -> Topology:
    builder = StreamsBuilder()
    for part in parts:
        part(builder)
    return builder.build()


def counts(topic: str = "in", store: str | None = "counts", *, filtered: bool = False) -> Callable[..., Any]:
    def build(builder: StreamsBuilder) -> None:
        stream = builder.stream(topic, READ)
        stream = stream.filter(pl.col("id") > 0) if filtered else stream
        grouped = stream.group_by_key()
        grouped.agg(n=count()) if store is None else grouped.agg(Materialized.as_(store), n=count())

    return build


def test_a_filter_comes_in_place(shop: Shop) -> None:
    shop.epoch(shop.start(built(counts())))
    said, refused = shop.against(built(counts(filtered=True)))
    assert "changes in place, with plan 1 from epoch 1 on:" in said and not refused
    assert plan_numbers(shop.blobs) == [0], "to describe changes nothing"
    app = shop.start(built(counts(filtered=True)))
    assert app.plan_number == 1
    shop.epoch(app)
    stored = stored_plan(shop.blobs)
    assert stored is not None and stored.number == 1
    again = shop.start(built(counts(filtered=True)))
    assert (again.plan_number, again.plan.digest) == (1, app.plan.digest)
    assert plan_numbers(shop.blobs) == [0, 1]


def test_bundles_keep_their_names_and_places_when_others_are_counted_before_them(shop: Shop) -> None:
    first = shop.start(built(counts()))
    shop.epoch(first)
    app = shop.start(built(counts("more", "others"), counts()))
    assert {"0-0", "0-1"} < {bundle.id for bundle in app.plan.bundles}
    assert {app.plan_positions[bundle.id] for bundle in first.plan.bundles} == {0, 1}
    assert sorted(app.plan_positions.values()) == [0, 1, 2, 3]
    shop.epoch(app)
    checkpoint = find_checkpoint(shop.blobs, "shop")
    assert checkpoint is not None
    topology = checkpoint.names(configured(built(counts("more", "others"), counts()), shop.config))
    assert (subtopology_of_store(topology, "counts"), subtopology_of_store(topology, "others")) == ("0", "1")
    old = checkpoint.names(configured(built(counts()), shop.config))
    assert subtopology_of_store(old, "counts") == "0", "the old program finds its stores, too"


def test_a_source_that_comes_back_goes_on_where_it_was(shop: Shop) -> None:
    shop.epoch(shop.start(built(counts(), counts("more", "others"))))
    without = shop.start(built(counts()))
    assert without.former_topics == {"more"}
    shop.epoch(without)
    back = shop.start(built(counts(), counts("more", "others")))
    assert back.former_topics == frozenset() and back.plan_number == 2


def test_a_plan_that_was_never_used_is_used_by_the_next_start(shop: Shop) -> None:
    shop.epoch(shop.start(built(counts())))
    assert [shop.start(built(counts(filtered=True))).plan_number for _ in range(2)] == [1, 1]
    assert shop.start(built(counts(), counts("more", "others"))).plan_number == 2
    assert shop.start(built(counts())).plan_number == 0


def two_counts(builder: StreamsBuilder) -> None:
    grouped = builder.stream("in", READ).group_by_key()
    grouped.agg(Materialized.as_("counts"), n=count())
    grouped.agg(Materialized.as_("more"), n=count())


def test_a_removed_store_is_kept_unless_it_is_to_be_deleted_and_both_are_reported(shop: Shop) -> None:
    shop.epoch(shop.start(built(two_counts)))
    kept = shop.start(built(counts()))
    assert shop.changes == [
        "store more is gone: its rows stay in the checkpoint (--delete-removed-stores deletes them)"
    ]
    assert kept.topology.kept is None
    app = shop.start(built(counts()), delete_removed_stores=True)
    assert shop.changes == ["store more is gone: its rows are deleted"]
    assert app.topology.kept is not None and app.topology.kept.deleted == {"0": ("more",)}
    shop.epoch(app)
    again = shop.start(built(counts()))
    assert (again.plan_number, again.topology.kept) == (app.plan_number, app.topology.kept)
    shop.start(built(counts(), counts("more", "others")), delete_removed_stores=True)
    assert shop.changes == ["new store others: begins empty"]


def test_a_store_may_come_back_once_its_rows_were_deleted_also_with_another_schema(shop: Shop) -> None:
    def with_sum(builder: StreamsBuilder) -> None:
        grouped = builder.stream("in", READ).group_by_key()
        grouped.agg(Materialized.as_("counts"), n=count())
        grouped.agg(Materialized.as_("more"), total=sum_("id"))

    shop.epoch(shop.start(built(two_counts)))
    assert shop.refused(built(with_sum)).condition == "STORE_SCHEMA_CHANGED"
    shop.epoch(shop.start(built(counts())))
    said = shop.refused(built(with_sum)).message
    assert "its old rows are still there" in said and "--delete-removed-stores" in said
    shop.epoch(shop.start(built(counts()), delete_removed_stores=True))
    said, refused = shop.against(built(with_sum))
    assert "new store more: begins empty" in said and not refused
    shop.epoch(shop.start(built(with_sum)))
    shop.epoch(shop.start(built(with_sum)))
    assert shop.refused(built(two_counts)).condition == "STORE_SCHEMA_CHANGED"


def test_bundles_of_a_sub_topology_that_is_gone_are_deleted_also_if_that_is_asked_for_later(shop: Shop) -> None:
    shop.epoch(shop.start(built(counts(), counts("more", "others"))))
    app = shop.start(built(counts()))
    assert app.deleted_bundles == ()
    shop.epoch(app)
    app = shop.start(built(counts()), delete_removed_stores=True)
    assert (app.plan_number, app.deleted_bundles) == (2, ("1-0", "1-1"))
    shop.epoch(app)
    assert shop.start(built(counts()), delete_removed_stores=True).plan_number == 2, "there is nothing left to delete"
    back = shop.start(built(counts(), counts("more", "others")))
    assert back.deleted_bundles == ("1-0", "1-1") and {"2-0", "2-1"} < {bundle.id for bundle in back.plan.bundles}


def test_renumbered_stores_are_refused_with_the_names_to_give(shop: Shop) -> None:
    shop.epoch(shop.start(built(counts(store=None))))
    said, refused = shop.against(built(counts(store=None, filtered=True)))
    assert refused and "give the name 'KSTREAM-AGGREGATE-STATE-STORE-0000000001'" in said
    error = shop.refused(built(counts(store=None, filtered=True)))
    assert error.condition == "PLAN_CHANGED"
    assert "'KSTREAM-AGGREGATE-STATE-STORE-0000000001' for the one that is" in error.message
    assert "`hayase app reset shop`" in error.message and "`-c application.id=shop-2`" in error.message
    named = built(counts(store="KSTREAM-AGGREGATE-STATE-STORE-0000000001", filtered=True))
    assert shop.start(named).plan_number == 1


def test_an_open_epoch_is_for_the_topology_that_began_it(shop: Shop) -> None:
    app = shop.start(built(counts()))
    begun = shop.epoch(app, done=False)
    said, refused = shop.against(built(counts(filtered=True)))
    assert not refused and "epoch 0 is open: its program is gone, so this one does it again" in said
    app.publish(shop.blobs, Vault())
    said, refused = shop.against(built(counts(filtered=True)))
    assert not refused and "epoch 0 is open: the old topology finishes it first" in said
    finishing = shop.start(built(counts(filtered=True)))
    assert (finishing.finishes, finishing.plan.digest, finishing.plan_number) == (0, begun.plan, 0)
    assert finishing.term > app.term, "the run that was killed is fenced off"
    shop.blobs.delete_below("programs/")
    shop.delta("0-1", begun)
    said, refused = shop.against(built(counts(filtered=True)))
    assert refused and "epoch 0 is open: REFUSED: bundle 0-1 has published a delta of it" in said
    error = shop.refused(built(counts(filtered=True)))
    assert error.condition == "OPEN_EPOCH_OF_ANOTHER_PLAN" and "bundle 0-1 has published a delta of it" in error.message
    assert not shop.blobs.list(REDO_FOLDER), "nothing was begun"
    assert shop.start(built(counts())).plan_number == 0


def test_an_open_epoch_whose_program_is_gone_or_fails_is_done_again(shop: Shop) -> None:
    app = shop.start(built(counts()))
    app.publish(shop.blobs, Vault())
    begun = shop.epoch(app, done=False)
    assert shop.start(built(counts(filtered=True))).finishes == 0
    assert shop.against(built(counts(filtered=True)))[0].endswith(
        "epoch 0 is open: the old topology finishes it first; if it fails, this one does it again"
    )
    changed = shop.start(built(counts(filtered=True)), unfinished=0)
    assert (changed.plan_number, changed.hands_over) == (1, False)
    epochs = Epochs(shop.blobs)
    assert epochs.last_done() == 0 and epochs.is_redone(0) and 0 in RedoneEpochs(shop.blobs)
    assert epochs.checked_record(0) == begun
    assert shop.start(built(counts())).plan_number == 0, "the plan in use is that of the newest record as ever"


def test_a_start_goes_on_with_what_one_that_was_killed_had_decided(shop: Shop) -> None:
    app = shop.start(built(counts()))
    app.publish(shop.blobs, Vault())
    shop.epoch(app, done=False)
    redone = RedoneEpochs(shop.blobs)
    closure = redone.close(0)
    assert redone.is_closed(0)
    shop.start(built(counts()))
    assert not redone.is_closed(0), "the program that began it finishes it"
    again = redone.close(0)
    assert (closure, again) == (0, 1)
    assert redone.decide(0, again, redone=True)
    shop.start(built(counts()))
    assert Epochs(shop.blobs).is_redone(0), "decided is decided"


def test_what_a_plan_was_to_delete_is_there_still_if_its_first_epoch_is_done_again_by_another(shop: Shop) -> None:
    shop.epoch(shop.start(built(two_counts)))
    deleting = shop.start(built(counts()), delete_removed_stores=True)
    shop.epoch(deleting, done=False)
    again = shop.start(built(counts(filtered=True)), unfinished=1)
    assert again.plan_number == 2 and again.topology.kept is not None and not again.topology.kept.deleted
    shop.epoch(again)
    stored = stored_plan(shop.blobs)
    assert stored is not None and stored.document is not None
    assert stored.document.shape.subtopologies["0"].left == ("more",), "its rows are there, and may be deleted later"
    later = shop.start(built(counts(filtered=True)), delete_removed_stores=True).topology.kept
    assert later is not None and later.deleted == {"0": ("more",)}


def test_a_closure_that_came_too_late_is_without_effect(shop: Shop) -> None:
    shop.epoch(shop.start(built(counts())))
    redone = RedoneEpochs(shop.blobs)
    redone.close(0)
    shop.start(built(counts()))
    assert redone.decision(0) is False and not Epochs(shop.blobs).is_redone(0)


def through(value: Serde[Any]) -> Callable[..., Any]:
    again = Repartitioned.as_("again").with_key_serde(Serdes.string()).with_value_serde(value)

    def build(builder: StreamsBuilder) -> None:
        stream = builder.stream("in", READ).select_key(lambda key, value: key).map_values(lambda value: value["id"])
        stream.repartition(again).to("out", Produced.with_(Serdes.string(), value))

    return build


def at_once(builder: StreamsBuilder) -> None:
    builder.stream("in", READ).to("out")


@pytest.mark.parametrize("changed", [at_once, through(Serdes.string())], ids=["gone", "other serde"])
def test_unread_records_of_an_internal_topic_are_read_by_the_program_before(
    shop: Shop, changed: Callable[..., Any]
) -> None:
    before = shop.start(built(through(Serdes.long())))
    before.publish(shop.blobs, Vault())
    shop.epoch(before)
    (topic,) = internal_topics_of_all(shop.blobs)
    shop.put(topic)
    emptying = shop.start(built(changed))
    assert (emptying.drains, emptying.finishes, emptying.plan.digest) == (frozenset({topic}), None, before.plan.digest)
    assert emptying.hands_over and emptying.term > before.term
    shop.blobs.delete_below("programs/")
    error = shop.refused(built(changed))
    assert error.condition == "UNREAD_INTERNAL_RECORDS" and topic in error.message


def test_an_internal_topic_without_unread_records_is_in_nobodys_way(shop: Shop) -> None:
    before = shop.start(built(through(Serdes.long())))
    before.publish(shop.blobs, Vault())
    shop.epoch(before)
    assert not shop.start(built(at_once)).hands_over
    assert not shop.start(built(through(Serdes.string()))).hands_over


def test_a_checkpoint_of_an_earlier_release_is_compared_once_its_own_program_has_started(shop: Shop) -> None:
    shop.epoch(shop.start(built(counts())))
    shop.blobs.delete("plans/000000")
    said, refused = shop.against(built(counts(filtered=True)))
    assert refused and "the old one must start once more" in said
    error = shop.refused(built(counts(filtered=True)))
    assert error.condition == "PLAN_CHANGED" and "once this release has started it" in error.message
    shop.start(built(counts()))
    assert shop.start(built(counts(filtered=True))).plan_number == 1


def test_the_same_topology_is_said_to_be_the_same(shop: Shop) -> None:
    shop.epoch(shop.start(built(counts())))
    assert shop.against(built(counts())) == (
        f"Against {shop.config.checkpoint_dir} (plan 0, 1 epochs done):\n  the topology has not changed",
        False,
    )


PROGRAM = """
from tests.unit.app.test_changed_topologies import built, counts

topology = built({parts})
"""

JOINED = """
import polars as pl

from hayase import *

READ = Consumed.with_(Serdes.string(), Serdes.json(schema={"id": pl.Int64, "other": pl.String}))
builder = StreamsBuilder()
left, right = builder.table("in", READ), builder.table("more", READ)
left.join(right, lambda row: row["other"], lambda a, b: a).to_stream().to("out", Produced.with_(Serdes.string()))
topology = builder.build()
"""


def test_the_command_line_says_what_a_start_would_do(
    shop: Shop, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shop.epoch(shop.start(built(counts())))
    settings = ["-c", "application.id=shop", "--log-dir", str(shop.config.log_dir)]
    for parts, code, said in (
        ("counts()", 0, "the topology has not changed"),
        ("counts(), counts('more', 'others')", 0, "new store others: begins empty"),
        ("counts(store=None), lambda builder: builder.table('more')", 0, "store counts is gone"),
    ):
        program = tmp_path / "program.py"
        program.write_text(PROGRAM.format(parts=parts))
        found = run_cli(("describe", str(program), *settings, "--against", shop.config.checkpoint_dir))
        assert (found, said in capsys.readouterr().out) == (code, True)


def test_the_command_line_says_that_topics_are_missing_and_ends_with_1(
    shop: Shop, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shop.epoch(shop.start(built(counts())))
    program = tmp_path / "program.py"
    program.write_text(PROGRAM.format(parts="counts(), lambda builder: builder.stream('more', READ).to('nowhere')"))
    program.write_text(program.read_text().replace("import built,", "import READ, built,"))
    settings = ["-c", "application.id=shop", "--log-dir", str(shop.config.log_dir)]
    assert run_cli(("describe", str(program), *settings, "--against", shop.config.checkpoint_dir)) == 1
    assert "REFUSED: topic nowhere does not exist" in capsys.readouterr().out


def test_partitions_that_do_not_fit_are_said_once(
    shop: Shop, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shop.epoch(shop.start(built(counts())))
    shop.log.create_topic("odd", 3)
    program = tmp_path / "program.py"
    program.write_text(
        "from tests.unit.app.test_changed_topologies import READ, built\n"
        "def part(builder):\n"
        "    builder.stream('in', READ).join(builder.table('odd', READ), lambda a, b: a).to('out')\n"
        "topology = built(part)\n"
    )
    settings = ["-c", "application.id=shop", "--log-dir", str(shop.config.log_dir)]
    assert run_cli(("describe", str(program), *settings, "--against", shop.config.checkpoint_dir)) == 1
    said = capsys.readouterr()
    assert (said.out + said.err).count("PARTITIONS_DIFFER") == 1 and "REFUSED" in said.out


def test_a_new_internal_topic_counts_with_the_partitions_that_it_will_get(shop: Shop) -> None:
    shop.epoch(shop.start(built(counts())))
    namespace: dict[str, Any] = {}
    exec(JOINED, namespace)
    said, refused = shop.against(namespace["topology"])
    assert "store counts is gone" in said and not refused
    check_change(configured(namespace["topology"], shop.config), shop.config)


def test_a_checkpoint_of_another_application_id_is_said_to_be_such(
    shop: Shop, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    namespace: dict[str, Any] = {}
    exec(JOINED, namespace)
    shop.epoch(shop.start(namespace["topology"]))
    program = tmp_path / "joined.py"
    program.write_text(JOINED)
    against = ["--log-dir", str(shop.config.log_dir), "--against", shop.config.checkpoint_dir]
    assert run_cli(("describe", str(program), *against)) == 1
    said = capsys.readouterr().err
    assert "APPLICATION_ID_DIFFERS" in said and "-c application.id=shop" in said
    assert run_cli(("describe", str(program), *against, "-c", "application.id=shop")) == 0
    assert "the topology has not changed" in capsys.readouterr().out


def test_a_checkpoint_that_nothing_started_on_is_named(shop: Shop) -> None:
    with pytest.raises(HayaseError, match="no application ever started on"):
        shop.against(built(counts()))


@pytest.mark.parametrize("damage", [b"", b"{}", b"x" * 50])
def test_a_damaged_plan_is_named(shop: Shop, damage: bytes) -> None:
    shop.epoch(shop.start(built(counts())))
    shop.epoch(shop.start(built(counts(filtered=True))))
    shop.blobs.delete("plans/000001")
    with pytest.raises(HayaseError, match="plans/000001 in the checkpoint is missing"):
        stored_plan(shop.blobs)
    shop.blobs.put_if_absent("plans/000001", damage)
    with pytest.raises(HayaseError, match="plans/000001 in the checkpoint is damaged"):
        stored_plan(shop.blobs)


def windowed(size_s: int, grace_s: int = 0) -> Topology:
    windows = TimeWindows.of_size_and_grace(timedelta(seconds=size_s), timedelta(seconds=grace_s))
    return built(
        lambda b: b.stream("in", READ).group_by_key().windowed_by(windows).agg(Materialized.as_("w"), n=count())
    )


def test_a_program_with_other_windows_does_not_mix_their_rows(shop: Shop) -> None:
    shop.epoch(shop.start(windowed(10)))
    said, refused = shop.against(windowed(20))
    assert refused and "REFUSED: store w has rows of tumbling windows of 10 s, and would get rows of tumbling" in said
    error = shop.refused(windowed(20))
    assert error.condition == "PLAN_CHANGED"
    assert "tumbling windows of 10 s" in str(error) and "tumbling windows of 20 s" in str(error)
    with pytest.raises(HayaseError, match="tumbling windows of 10 s"):
        check_change(configured(windowed(20), shop.config), shop.config)
    assert shop.start(windowed(10)).plan_number == 0, "the old topology goes on"


def test_a_program_with_another_grace_period_goes_on_and_says_so(shop: Shop) -> None:
    shop.epoch(shop.start(windowed(10)))
    said, refused = shop.against(windowed(10, grace_s=60))
    assert not refused and "grace 0 s -> 60 s" in said
    app = shop.start(windowed(10, grace_s=60))
    assert app.plan_number == 1
    shop.epoch(app)
    assert shop.start(windowed(10, grace_s=60)).plan_number == 1
    assert "the topology has not changed" in shop.against(windowed(10, grace_s=60))[0]
    assert shop.refused(windowed(20, grace_s=60)).condition == "PLAN_CHANGED"


def test_windows_of_a_checkpoint_that_does_not_say_them_are_taken_as_they_come(shop: Shop) -> None:
    shop.epoch(shop.start(windowed(10)))
    kept = read_plan(shop.blobs, 0)
    assert kept is not None
    part = msgspec.structs.replace(kept.shape.subtopologies["0"], windows={}, graces_ms={})
    shape = msgspec.structs.replace(kept.shape, subtopologies={"0": part})
    (name,) = shop.blobs.list(PLANS_FOLDER)
    shop.blobs.delete(name)
    publish_plan(shop.blobs, msgspec.structs.replace(kept, shape=shape))
    assert shop.against(windowed(20)) == (
        f"Against {shop.config.checkpoint_dir} (plan 0, 1 epochs done):\n  the topology has not changed",
        False,
    )
    assert shop.start(windowed(20)).plan_number == 0
