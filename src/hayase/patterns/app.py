"""`PatternsApp`: an application with aggregates."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any, overload

from hayase.app.app import StreamsApp
from hayase.compiler.build import source_topics
from hayase.core.config import StreamsConfig
from hayase.core.errors import CheckpointError, ConfigError, LogError, StateError, TopologyError
from hayase.core.records import TopicPartition
from hayase.dsl.builder import StreamsBuilder, topology_of
from hayase.log.config import log_config
from hayase.log.open import open_log
from hayase.log.protocol import Log
from hayase.patterns import cloud_events
from hayase.patterns.commands import CommandClient
from hayase.patterns.decider import C, S
from hayase.patterns.erasure import ErasureStatus, tiers_of
from hayase.patterns.event_log import KEPT_FOR_EVER, check_kept
from hayase.patterns.event_sourced import EventSourced
from hayase.patterns.history import EventHistory
from hayase.patterns.read_models.read_model import ReadModel
from hayase.patterns.read_models.runner import ReadModelRunner, gauge_lag, make_topic
from hayase.patterns.relations import aggregates_of, sagas_of
from hayase.patterns.saga.definition import check_versions
from hayase.patterns.saga.saga import Saga
from hayase.patterns.saga.unread_answers import refuse_unread, unread_answers
from hayase.patterns.subject_keys import SubjectKeys
from hayase.topology.topology import Topology

_SETTINGS = {"max.records.per.epoch": 50_000}
"""Instead of the defaults of other applications: commands and events have a dozen headers each, so they take ten times
the memory of records without, and more of them in one epoch are not handled any faster."""
_REPLY_RETENTION = {"retention.ms": str(24 * 3600 * 1000)}


class PatternsApp(StreamsApp):
    """A `StreamsApp` with aggregates: makes their topics, sends them commands, and reads their history.

    What sends and reads need not run it: any process with the same topology and settings can.

    Args:
        topology: with aggregates; or one aggregate, which is run by itself.
        config: settings; in a mapping `max.records.per.epoch` is 50,000 unless it says otherwise.
        partitions: of the topics of aggregates that are made.
        read_models: filled in threads of this process while the application is started.

    Example:
        >>> with PatternsApp(order, {"application.id": "orders"}) as app:  # doctest: +SKIP
        ...     app.start()
        ...     app.commands("order").send("17", Place("book"))
    """

    def __init__(
        self,
        topology: Topology | StreamsBuilder | EventSourced[Any, Any, Any],
        config: StreamsConfig | Mapping[str, object],
        *,
        partitions: int = 4,
        read_models: Sequence[ReadModel] = (),
    ) -> None:
        topology = topology.topology() if isinstance(topology, EventSourced) else topology_of(topology)
        self.aggregates = aggregates_of(topology)
        self.sagas = sagas_of(topology)
        self._partitions = partitions
        if not isinstance(config, StreamsConfig):
            config = {**_SETTINGS, **config}
        super().__init__(topology, config)
        for keys in self._keys():
            keys.bind(self.config)
        self.read_models = {model.name: ReadModelRunner(model, self.config) for model in read_models}
        for name, runner in self.read_models.items():
            gauge_lag(self._telemetry.registry, self.config.application_id, name, runner)

    def start(self) -> None:
        """See `StreamsApp.start`; topics of aggregates are made first.

        Raises:
            HayaseError: what `create_topics` and `StreamsApp.start` raise.
        """
        self.create_topics()
        self.check_sagas()
        with _naming_rebuild(self.aggregates):
            super().start()
        for runner in self.read_models.values():
            runner.start()

    def close(self, timeout: timedelta = timedelta(seconds=60)) -> bool:
        """See `StreamsApp.close`; read models stop after the write that they are at."""
        for runner in self.read_models.values():
            runner.close()
        return super().close(timeout)

    def start_to_end(self) -> None:
        """See `StreamsApp.start_to_end`; topics of aggregates are made first."""
        self.create_topics()
        self.check_sagas()
        with _naming_rebuild(self.aggregates):
            super().start_to_end()

    def check_sagas(self) -> None:
        """Check, where the state of the application can be read here, that the program has all versions of open sagas.

        Elsewhere they are checked when the first task of a saga runs.

        Raises:
            TopologyError: `SAGA_VERSION_MISSING`.
        """
        for saga in self.sagas.values():
            try:
                rows = self.store(saga.open_store).all().rows
            except (StateError, CheckpointError):  # it never started, or its state is on other machines
                continue
            check_versions(saga.name, saga.definitions, ((row.key, row.value) for row in rows))

    def create_topics(self) -> None:
        """Make the topics of the aggregates that are not there, and check those that are.

        Raises:
            ConfigError: `EVENTS_WOULD_BE_LOST`: a topic of events expires or is compacted.
            ConfigError: `AGGREGATE_OWNED`: another application has decided for an aggregate.
            TopologyError: `ANSWERS_UNREAD`: open sagas would lose answers that the program before has not read.
        """
        log = open_log(log_config(self.config))
        try:
            for aggregate in self.aggregates.values():
                self._make_topics(log, aggregate)
                check_kept(log, aggregate.events_topic)
                _check_owner(log, aggregate, self.config.application_id)
            for keys in self._keys():
                keys.create_topic(log)
            for runner in self.read_models.values():
                make_topic(log, runner.model, self._partitions)
            for saga in self.sagas.values():
                self._make_topics(log, saga)
                unread = unread_answers(log, self.config, saga, source_topics(self.topology))
                if unread and self._has_open(saga):
                    refuse_unread(saga.name, unread)
        finally:
            log.close()

    def _has_open(self, saga: Saga[Any]) -> bool:
        """Whether a saga is open, or may be: its state cannot be read here."""
        try:
            return any(row.value for row in self.store(saga.open_store).all())
        except (StateError, CheckpointError):
            return True

    @overload
    def commands(self, aggregate: str, *, source: str = "/client") -> CommandClient[Any]: ...
    @overload
    def commands(self, aggregate: EventSourced[C, Any, Any], *, source: str = "/client") -> CommandClient[C]: ...
    def commands(self, aggregate: str | EventSourced[Any, Any, Any], *, source: str = "/client") -> CommandClient[Any]:
        """A client that sends commands to an aggregate: by its name, or, with types, by itself; to a saga by its name.

        Raises:
            TopologyError: `UNKNOWN_AGGREGATE`.
        """
        if isinstance(aggregate, str) and aggregate in self.sagas:
            return CommandClient(self.sagas[aggregate], self.config, source=source)
        if isinstance(aggregate, str) and aggregate not in self.aggregates:
            known = ", ".join([*sorted(self.aggregates), *sorted(self.sagas)]) or "none"
            raise TopologyError(
                "UNKNOWN_AGGREGATE", f"the topology has no aggregate and no saga {aggregate!r}; it has: {known}"
            )
        return CommandClient(self._aggregate(aggregate), self.config, source=source)

    @overload
    def events(self, aggregate: str) -> EventHistory[Any]: ...
    @overload
    def events(self, aggregate: EventSourced[Any, Any, S]) -> EventHistory[S]: ...
    def events(self, aggregate: str | EventSourced[Any, Any, Any]) -> EventHistory[Any]:
        """The history of an aggregate: by its name, or, with types, by itself.

        Raises:
            TopologyError: `UNKNOWN_AGGREGATE`.
        """
        return EventHistory(self._aggregate(aggregate), self)

    def erase(self, subject: str) -> ErasureStatus:
        """Delete the keys of a subject: its personal fields are unreadable from now on, and read as erased.

        Every process has forgotten them within a second. See `erasure_status` for when nothing is left of them.

        Args:
            subject: its id, as in the fields that `Personal` names.

        Raises:
            ConfigError: `NO_PERSONAL_FIELDS`: the aggregates have no keys.
            LogError: the log cannot be reached.
        """
        for keys in self._keys_or_fail():
            keys.erase(subject)
        return self.erasure_status(subject)

    def erasure_status(self, subject: str) -> ErasureStatus:
        """Whether the data of a subject is erased, and where its keys, and what they encrypted, may still be."""
        found = [keys.status(subject) for keys in self._keys_or_fail()]
        every: list[EventSourced[Any, Any, Any] | Saga[Any]] = [*self.aggregates.values(), *self.sagas.values()]
        encrypted = [topic for each in every if each.keys is not None for topic in each.topics]
        log = open_log(log_config(self.config))
        try:
            tiers = tiers_of(log, encrypted, "encrypted fields, which nothing reads once their keys are gone")
        finally:
            log.close()
        return ErasureStatus(
            subject,
            None if any(each.erased_ms is None for each in found) else max(each.erased_ms or 0 for each in found),
            tuple(left for each in found for left in each.keys_left),
            (*(tier for each in found for tier in each.tiers), *tiers),
        )

    def _keys(self) -> list[SubjectKeys]:
        """Of the aggregates, and of those that they and the sagas send commands to."""
        found = [keys for each in self.aggregates.values() for keys in each.keys_of_commands]
        found += [keys for each in self.sagas.values() for keys in each.keys_of_commands]
        return list({id(keys): keys for keys in found}.values())

    def _keys_or_fail(self) -> list[SubjectKeys]:
        found = self._keys()
        if not found:
            raise ConfigError(
                "NO_PERSONAL_FIELDS",
                "no aggregate of the application has keys=SubjectKeys(…), so nothing can be erased",
            )
        return found

    def _aggregate(self, aggregate: str | EventSourced[Any, Any, Any]) -> EventSourced[Any, Any, Any]:
        return aggregate_named(self.aggregates, aggregate if isinstance(aggregate, str) else aggregate.name)

    def _make_topics(self, log: Log, aggregate: EventSourced[Any, Any, Any] | Saga[Any]) -> None:
        there = log.describe(aggregate.topics)
        settings = {aggregate.events_topic: KEPT_FOR_EVER, aggregate.replies_topic: _REPLY_RETENTION}
        for topic in aggregate.topics:
            if topic in there:
                continue
            try:
                log.create_topic(topic, self._partitions, settings.get(topic))
            except LogError as error:
                if error.condition != "TOPIC_EXISTS":  # another process has just made it
                    raise


def aggregate_named(aggregates: Mapping[str, EventSourced[Any, Any, Any]], name: str) -> EventSourced[Any, Any, Any]:
    """The aggregate of that name.

    Raises:
        TopologyError: `UNKNOWN_AGGREGATE`.
    """
    if name not in aggregates:
        known = ", ".join(sorted(aggregates)) or "none"
        raise TopologyError("UNKNOWN_AGGREGATE", f"the topology has no aggregate {name!r}; it has: {known}")
    return aggregates[name]


def saga_named(sagas: Mapping[str, Saga[Any]], name: str) -> Saga[Any]:
    """The saga of that name.

    Raises:
        TopologyError: `UNKNOWN_SAGA`.
    """
    if name not in sagas:
        known = ", ".join(sorted(sagas)) or "none"
        raise TopologyError("UNKNOWN_SAGA", f"the topology has no saga {name!r}; it has: {known}")
    return sagas[name]


@contextlib.contextmanager
def _naming_rebuild(aggregates: Mapping[str, EventSourced[Any, Any, Any]]) -> Iterator[None]:
    """Have the refusal of states of another `state_version` name the command that rebuilds them."""
    try:
        yield
    except CheckpointError as error:
        stores = {aggregate.state_store: name for name, aggregate in aggregates.items()}
        name = stores.get(str(error.context.get("store")))
        if error.condition != "STORE_SCHEMA_CHANGED" or name is None:
            raise
        raise CheckpointError(
            error.condition,
            f"{error.message}. States of an aggregate are rebuilt from its events: `hayase events rebuild … {name}`",
            **error.context,
        ) from error


def create_topics(topology: Topology, config: StreamsConfig) -> None:
    """Make the topics of a topology's aggregates and sagas, and check those that are there; none for other topologies.

    `PatternsApp` does so by itself, and a shared runtime where a topology has aggregates or sagas.

    Raises:
        ConfigError: as `PatternsApp.create_topics`.
    """
    if aggregates_of(topology) or sagas_of(topology):
        PatternsApp(topology, config).create_topics()


def _check_owner(log: Log, aggregate: EventSourced[Any, Any, Any], application_id: str) -> None:
    """Refuse an aggregate that another application decides for, by the last events of each partition."""
    topic = aggregate.events_topic
    partitions = [TopicPartition(topic, number) for number in range(log.describe([topic])[topic].partitions)]
    reader = log.reader()
    try:
        for partition, end in log.end_offsets(partitions).items():
            for batch in reader.fetch(partition, max(0, end - 2), end) if end else ():  # on Kafka the last is a marker
                for headers in batch.headers or ():
                    owner = cloud_events.from_headers(headers).get(cloud_events.APPLICATION, application_id)
                    if owner != application_id:
                        raise ConfigError(
                            "AGGREGATE_OWNED",
                            f"the last events in {topic!r} were decided by application {owner!r}, and this is "
                            f"{application_id!r}. Two applications cannot decide for one aggregate: each would have "
                            "its own states. Run this one with that application.id, or give the aggregate another "
                            "name",
                            topic=topic,
                            partition=partition.partition,
                        )
    finally:
        reader.close()
