"""The producer of a slot on real brokers: several applications in one transaction, places that change, and back."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from hayase.core.errors import CheckpointError, LogError, ProductionError
from hayase.core.records import TopicPartition
from hayase.log.assignments import LARGE_EPOCH_RECORDS, Assignments, Place
from hayase.log.kafka import slot_writer
from hayase.log.kafka.log import KafkaLog
from hayase.log.kafka.slot_ids import Owner, SlotIds
from hayase.log.kafka.slot_writer import SlotStep, SlotWriter
from hayase.log.protocol import LogConfig, Marker, OutputBatch
from hayase.runtime.epochs.slot_places import PlacedTopology, SlotPlaces, give_back
from hayase.runtime.worker.slot_publisher import publish_together
from hayase.storage.blobs import BlobStore
from hayase.storage.open import open_blobs
from hayase.testing.kafka_broker import KafkaBroker

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(180)]


class Runtime:
    """A runtime's checkpoint and planner, with two applications of one bundle each in one slot."""

    def __init__(self, config: LogConfig, folder: Path) -> None:
        name = uuid.uuid4().hex[:8]
        self.config, self.log = config, KafkaLog(config)
        self.apps = (f"a-{name}", f"b-{name}")
        self.topic = self.log.create_topic(f"t-{name}", 1).name
        self.owner = Owner(f"runtime-{name}", str(folder / name))
        self.blobs = self.open_blobs(self.owner.checkpoint)
        self.ids = SlotIds(config)
        self.places = self.begin()
        self.place()

    def open_blobs(self, location: str) -> BlobStore:
        return open_blobs(location, fsync=False)

    def begin(self) -> SlotPlaces:
        return SlotPlaces(self.owner, self.blobs, self.ids, 1, self.open_blobs)

    def place(self, *apps: str) -> None:
        """Those are started, all if none is named."""
        topologies = {app: PlacedTopology("L", {"0-0": 0}, {"0-0": 0}, self.config) for app in self.apps}
        self.places.place(topologies, apps or self.apps)

    def place_alone(self, app: str) -> None:
        """Its bundles get an id to themselves, while it is at work."""
        topologies = {
            each: PlacedTopology("L", {"0-0": 0}, {"0-0": 0}, self.config, frozenset({0} if each == app else ()))
            for each in self.apps
        }
        self.places.place(topologies, ())

    def writer(self) -> SlotWriter:
        return SlotWriter(self.config, Assignments(self.blobs))

    def step(self, app: str, epoch: int, value: bytes = b"v", *, place: Place | None = None) -> SlotStep:
        batch = OutputBatch(self.topic, [app.encode()], [value], [1])
        return SlotStep(app, "0-0", place or self.place_of(app), 0, Marker("L", epoch, "d"), [batch])

    def place_of(self, app: str) -> Place:
        return self.places.of(app)["0-0"]

    def give_back(self, app: str) -> None:
        owner = self.ids.owner(app)
        assert owner is not None
        give_back(self.ids, app, owner, self.open_blobs)

    def written(self) -> list[bytes]:
        """Keys of the output topic."""
        partition = TopicPartition(self.topic, 0)
        reader = self.log.reader()
        while self.log.unfinished([partition]):  # Kafka ends transactions in the background
            time.sleep(0.01)
        end = self.log.end_offsets([partition])[partition]
        return [key or b"" for batch in reader.fetch(partition, 0, end) for key in batch.keys]


@pytest.fixture
def runtime(broker: KafkaBroker, tmp_path: Path) -> Iterator[Runtime]:
    made = Runtime(LogConfig("kafka", broker.bootstrap_servers), tmp_path)
    yield made
    made.ids.close()
    made.log.close()


def test_what_several_applications_have_ready_is_written_once_with_their_markers(runtime: Runtime) -> None:
    a, b = runtime.apps
    writer = runtime.writer()
    assert writer.publish([runtime.step(a, 0), runtime.step(b, 0)]) == [True, True]
    assert writer.publish([runtime.step(a, 0), runtime.step(b, 1)]) == [False, True]
    assert runtime.writer().publish([runtime.step(a, 1), runtime.step(b, 1)]) == [True, False]
    assert runtime.log.markers(a) == {"0-0": Marker("L", 1, "d")}
    assert sorted(runtime.written()) == sorted([a.encode()] * 2 + [b.encode()] * 2)
    writer.close()


@pytest.mark.parametrize("records", [1, LARGE_EPOCH_RECORDS])
def test_a_slot_that_has_looked_before_an_epoch_was_closed_is_ended_and_publishes_the_others(
    runtime: Runtime, records: int
) -> None:
    a, b = runtime.apps
    writer = runtime.writer()
    writer.publish([runtime.step(a, 0), runtime.step(b, 0)])
    looks: list[bool] = []

    def is_closed() -> bool:
        looks.append(bool(looks))
        if not looks[-1]:  # it is closed right behind the first look
            runtime.log.end_attempts(a, "L", ["0-0"])
        return looks[-1]

    batch = OutputBatch(runtime.topic, [a.encode()] * records, [b"v"] * records, [1] * records)
    closed = runtime.step(a, 1)._replace(batches=[batch], is_closed=is_closed)
    with pytest.raises(LogError) as raised:
        writer.publish([closed, runtime.step(b, 1)])
    assert raised.value.condition == "STATE_MOVED" and looks == [False, True]
    assert writer.publish([runtime.step(b, 1)]) == [True]
    assert runtime.log.markers(a)["0-0"].epoch == 0
    assert runtime.written() == [a.encode(), b.encode(), b.encode()]
    writer.close()


def test_a_large_epoch_that_was_looked_at_before_it_was_closed_is_ended(runtime: Runtime) -> None:
    a, _ = runtime.apps
    writer = runtime.writer()
    batch = OutputBatch(
        runtime.topic, [a.encode()] * LARGE_EPOCH_RECORDS, [b"v"] * LARGE_EPOCH_RECORDS, [1] * LARGE_EPOCH_RECORDS
    )
    looks: list[bool] = []

    def is_closed() -> bool:
        looks.append(bool(looks))
        if not looks[-1]:  # it is closed right behind the first look
            runtime.log.end_attempts(a, "L", ["0-0"])
        return looks[-1]

    with pytest.raises(LogError) as raised:
        writer.publish([runtime.step(a, 0)._replace(batches=[batch], is_closed=is_closed)])
    assert raised.value.condition == "STATE_MOVED" and looks == [False, True]
    assert runtime.written() == []
    writer.close()


def test_a_second_process_that_takes_the_id_again_and_again_is_warned_of(
    runtime: Runtime, caplog: pytest.LogCaptureFixture
) -> None:
    a, b = runtime.apps
    writer, second = runtime.writer(), runtime.writer()
    often = slot_writer._LOST_OFTEN
    for epoch in range(often):
        assert writer.publish([runtime.step(a, epoch)]) == [True]
        assert second.publish([runtime.step(b, epoch)]) == [True]
    assert "a second runtime" not in caplog.text
    runtime.place(a)
    assert writer.publish([runtime.step(a, often)]) == [True]
    assert "a second runtime" not in caplog.text, "an assignment that has changed takes ids, too"
    assert second.publish([runtime.step(b, often)]) == [True]
    assert writer.publish([runtime.step(a, often + 1)]) == [True]
    assert "a second runtime with this application.id seems to run" in caplog.text
    assert runtime.written() == [a.encode(), b.encode()] * (often + 1) + [a.encode()]
    writer.close()
    second.close()


def test_a_step_whose_place_is_another_by_now_writes_nothing_and_others_go_on(runtime: Runtime) -> None:
    a, b = runtime.apps
    writer, stray = runtime.writer(), runtime.step(a, 0)
    assert writer.publish([runtime.step(b, 0)]) == [True]
    runtime.place(a)
    for each in (writer, runtime.writer()):
        with pytest.raises(LogError) as raised:
            each.publish([stray, runtime.step(b, 1)])
        assert raised.value.condition == "STATE_MOVED"
    assert writer.publish([runtime.step(a, 0), runtime.step(b, 1)]) == [True, True]
    assert runtime.written() == [b.encode(), a.encode(), b.encode()]


def test_a_step_is_written_once_under_the_id_that_its_application_got_to_itself_meanwhile(runtime: Runtime) -> None:
    a, b = runtime.apps
    writer, other = runtime.writer(), runtime.writer()
    assert writer.publish([runtime.step(a, 0), runtime.step(b, 0)]) == [True, True]
    on_its_way, others = runtime.step(a, 1), runtime.place_of(b)
    runtime.place_alone(a)
    assert runtime.place_of(a).id == f"{runtime.owner.runtime}-@slot-0-{a}" and runtime.place_of(b) == others
    with pytest.raises(LogError) as raised:
        writer.publish([on_its_way])
    assert raised.value.condition == "STATE_MOVED"
    assert other.publish([runtime.step(a, 1)]) == [True]
    assert writer.publish([runtime.step(b, 1)]) == [True]
    assert other.publish([runtime.step(a, 2)]) == [True]  # the other writer has not taken its id
    assert sorted(runtime.written()) == [a.encode()] * 3 + [b.encode()] * 2


def test_all_bundles_of_an_application_that_comes_to_a_runtime_go_on_behind_what_they_wrote(runtime: Runtime) -> None:
    app, bundles = f"many-{runtime.owner.runtime}", {f"0-{number}": number for number in range(20)}
    own = runtime.log.writer()
    for bundle, position in bundles.items():
        batch = OutputBatch(runtime.topic, [bundle.encode()], [b"v"], [1])
        assert own.publish_epoch(app, bundle, Marker("L", position, "d"), [batch], plan_position=position)
    topology = PlacedTopology("L", dict.fromkeys(bundles, 0), bundles, runtime.config)
    runtime.places.place({app: topology}, [app])
    assert runtime.log.markers(app) == {bundle: Marker("L", position, "d") for bundle, position in bundles.items()}
    with pytest.raises(LogError) as raised:
        own.publish_epoch(app, "0-3", Marker("L", 4, "d"), [batch], plan_position=3)
    assert raised.value.condition == "STATE_MOVED"
    own.close()


def test_a_refused_record_fails_its_application_alone(runtime: Runtime) -> None:
    a, b = runtime.apps
    writer = runtime.writer()
    groups = [[runtime.step(a, 0, b"x" * 3_000_000)], [runtime.step(b, 0)]]
    refused, written = publish_together(groups, writer.publish, lambda number: writer.publish(groups[number]))
    assert isinstance(refused, ProductionError) and refused.condition == "RECORD_REFUSED"
    assert written == [True]
    assert runtime.written() == [b.encode()]
    assert runtime.log.markers(a) == {}


def test_a_writer_with_an_id_of_the_bundle_gives_up_until_the_bundle_is_given_back(runtime: Runtime) -> None:
    a, _ = runtime.apps
    step, own = runtime.step(a, 0), runtime.log.writer()
    assert runtime.writer().publish([step]) == [True]
    with pytest.raises(LogError) as raised:
        own.publish_epoch(a, "0-0", Marker("L", 1, "d"), step.batches, plan_position=0)
    assert raised.value.condition == "STATE_MOVED"
    runtime.give_back(a)
    assert runtime.ids.owner(a) is None
    assert not own.publish_epoch(a, "0-0", Marker("L", 0, "d"), step.batches, plan_position=0)
    assert own.publish_epoch(a, "0-0", Marker("L", 1, "d"), step.batches, plan_position=0)
    with pytest.raises(LogError) as raised:
        runtime.writer().publish([runtime.step(a, 2)])
    assert raised.value.condition == "STATE_MOVED"
    assert len(runtime.written()) == 2
    own.close()


def test_a_bundle_that_wrote_with_its_own_id_goes_on_behind_that_in_a_slot(runtime: Runtime) -> None:
    a, _ = runtime.apps
    runtime.give_back(a)
    own, step = runtime.log.writer(), runtime.step(a, 0)
    assert own.publish_epoch(a, "0-0", Marker("L", 5, "d"), step.batches, plan_position=0)
    runtime.places = runtime.begin()
    runtime.place()
    assert runtime.log.markers(a) == {"0-0": Marker("L", 5, "d")}
    writer = runtime.writer()
    assert writer.publish([runtime.step(a, 5)]) == [False]
    assert writer.publish([runtime.step(a, 6)]) == [True]
    own.close()


def test_a_start_does_not_wait_for_the_transaction_of_a_dead_process(runtime: Runtime, broker: KafkaBroker) -> None:
    a, b = runtime.apps
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": f"{b}-0-0"})
    producer.init_transactions(30)
    producer.begin_transaction()
    for app in runtime.apps:
        producer.produce(f"{app}-epochs", b"{}", b"other", 0)
    assert producer.flush(30) == 0
    ids = SlotIds(runtime.config, timeout_s=5.0)
    assert ids.owner(a) == runtime.owner
    runtime.places = SlotPlaces(runtime.owner, runtime.blobs, ids, 1, runtime.open_blobs)
    runtime.place()
    producer.abort_transaction(30)
    ids.close()


def test_a_bundle_of_a_runtime_whose_checkpoint_is_gone_is_not_given_back(runtime: Runtime) -> None:
    a, _ = runtime.apps
    runtime.blobs.delete_below("assignments/")
    with pytest.raises(CheckpointError) as raised:
        runtime.give_back(a)
    assert raised.value.condition == "RUNTIME_CHECKPOINT_MISSING"


def test_the_bundles_of_one_runtime_go_on_in_the_slots_of_another(runtime: Runtime, tmp_path: Path) -> None:
    a, _ = runtime.apps
    stray = runtime.writer()
    step = runtime.step(a, 0)
    assert stray.publish([step]) == [True]
    first = runtime.blobs
    runtime.owner = Owner(f"{runtime.owner.runtime}-2", str(tmp_path / "second"))
    runtime.blobs = runtime.open_blobs(runtime.owner.checkpoint)
    runtime.places = runtime.begin()
    runtime.place()
    assert a not in Assignments(first).newest().places
    writer = runtime.writer()
    assert writer.publish([runtime.step(a, 0), runtime.step(runtime.apps[1], 0)]) == [False, True]
    assert writer.publish([runtime.step(a, 1)]) == [True]
    with pytest.raises(LogError):
        stray.publish([runtime.step(a, 2, place=step.place)])
