from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from hayase.core.config import StreamsConfig
from hayase.core.errors import ConfigError

ID = {"application.id": "orders"}

KAFKA_STREAMS_4_3_KEYS = [
    "acceptable.recovery.lag",
    "allow.os.group.write.access",
    "application.id",
    "application.server",
    "bootstrap.servers",
    "buffered.records.per.partition",
    "built.in.metrics.version",
    "cache.max.bytes.buffering",
    "client.id",
    "commit.interval.ms",
    "config.providers",
    "connections.max.idle.ms",
    "default.client.supplier",
    "default.deserialization.exception.handler",
    "default.dsl.store",
    "default.key.serde",
    "default.list.key.serde.inner",
    "default.list.key.serde.type",
    "default.list.value.serde.inner",
    "default.list.value.serde.type",
    "default.production.exception.handler",
    "default.timestamp.extractor",
    "default.value.serde",
    "deserialization.exception.handler",
    "dsl.store.format",
    "dsl.store.suppliers.class",
    "enable.metrics.push",
    "ensure.explicit.internal.resource.naming",
    "errors.dead.letter.queue.topic.name",
    "group.protocol",
    "log.summary.interval.ms",
    "max.warmup.replicas",
    "metadata.max.age.ms",
    "metadata.recovery.rebootstrap.trigger.ms",
    "metadata.recovery.strategy",
    "metric.reporters",
    "metrics.num.samples",
    "metrics.recording.level",
    "metrics.sample.window.ms",
    "num.standby.replicas",
    "num.stream.threads",
    "poll.ms",
    "probing.rebalance.interval.ms",
    "processing.exception.handler",
    "processing.exception.handler.global.enabled",
    "processing.guarantee",
    "processor.wrapper.class",
    "production.exception.handler",
    "rack.aware.assignment.non_overlap_cost",
    "rack.aware.assignment.strategy",
    "rack.aware.assignment.tags",
    "rack.aware.assignment.traffic_cost",
    "receive.buffer.bytes",
    "reconnect.backoff.max.ms",
    "reconnect.backoff.ms",
    "repartition.purge.interval.ms",
    "replication.factor",
    "request.timeout.ms",
    "retry.backoff.ms",
    "rocksdb.config.setter",
    "security.protocol",
    "send.buffer.bytes",
    "state.cleanup.delay.ms",
    "state.cleanup.dir.max.age.ms",
    "state.dir",
    "statestore.cache.max.bytes",
    "task.assignor.class",
    "task.timeout.ms",
    "topology.optimization",
    "upgrade.from",
    "window.size.ms",
    "windowed.inner.class.serde",
    "windowstore.changelog.additional.retention.ms",
]

EXAMPLES = {
    "application.id": "orders",
    "application.server": "host:7070",
    "bootstrap.servers": "a:9092",
    "default.key.serde": "string",
    "default.value.serde": "json",
    "default.timestamp.extractor": "wall_clock",
    "ensure.explicit.internal.resource.naming": True,
    "errors.dead.letter.queue.topic.name": "dead",
    "metrics.recording.level": "DEBUG",
    "processing.guarantee": "at_least_once",
    "security.protocol": "SSL",
    "state.dir": "/var/lib/state",
    "topology.optimization": "all",
    "default.dsl.store": "rocksDB",
    "dsl.store.suppliers.class": "InMemoryDslStoreSuppliers",
    **dict.fromkeys(
        (
            "deserialization.exception.handler",
            "processing.exception.handler",
            "production.exception.handler",
            "default.deserialization.exception.handler",
            "default.production.exception.handler",
        ),
        "log_and_continue",
    ),
}


def config(**settings):
    return StreamsConfig({**ID, **settings}, environ={"HOME": "/home/somebody"})


@pytest.mark.parametrize("key", KAFKA_STREAMS_4_3_KEYS)
def test_every_key_of_kafka_streams_is_known(key):
    StreamsConfig({**ID, key: EXAMPLES.get(key, 1)})


def test_the_defaults():
    made = config()
    assert made.processing_guarantee == "exactly_once_v2"
    assert made.exactly_once and made.embedded and made.caching and made.checkpoint_fsync
    assert (made.num_stream_threads, made.num_bundles) == (None, None)
    assert (made.commit_interval_ms, made.max_records_per_epoch) == (100, 1_000_000)
    assert made.state_dir == Path("/home/somebody/.local/state/hayase")
    assert made.checkpoint_dir == "/home/somebody/.local/state/hayase/orders/checkpoint"
    assert made.log_dir == Path("/home/somebody/.local/share/hayase/log")
    assert made.notes == ()


def test_the_users_state_folder_is_respected():
    made = StreamsConfig(ID, environ={"HOME": "/h", "XDG_STATE_HOME": "/s", "XDG_DATA_HOME": "/d"})
    assert (made.state_dir, made.log_dir) == (Path("/s/hayase"), Path("/d/hayase/log"))


def test_the_checkpoint_follows_the_state_folder_unless_it_is_given():
    assert config(**{"state.dir": "/x"}).checkpoint_dir == "/x/orders/checkpoint"
    assert config(**{"checkpoint.dir": "s3://bucket/x"}).checkpoint_dir == "s3://bucket/x"


def test_values_may_be_text():
    made = config(**{"num.stream.threads": "3", "checkpoint.fsync": "false", "statestore.cache.max.bytes": "0"})
    assert (made.num_stream_threads, made.checkpoint_fsync, made.caching) == (3, False, False)


def test_servers_may_be_a_list_or_text():
    assert config(**{"bootstrap.servers": "a:1, b:2"}).bootstrap_servers == ("a:1", "b:2")
    assert config(**{"bootstrap.servers": ["a:1", "[::1]:2"]}).bootstrap_servers == ("a:1", "[::1]:2")
    assert not config(**{"bootstrap.servers": "a:1"}).embedded


def test_client_settings_reach_their_clients():
    made = config(
        **{
            "security.protocol": "SSL",
            "ssl.ca.location": "/ca",
            "receive.buffer.bytes": 5,
            "consumer.fetch.max.bytes": 7,
            "main.consumer.fetch.min.bytes": 8,
            "producer.linger.ms": 9,
            "producer.enable.idempotence": True,
            "admin.retries": 1,
            "spark.sql.shuffle.partitions": 4,
        }
    )
    common = {"security.protocol": "SSL", "ssl.ca.location": "/ca", "socket.receive.buffer.bytes": "5"}
    assert made.consumer_properties == {**common, "fetch.max.bytes": "7", "fetch.min.bytes": "8"}
    assert made.producer_properties == {**common, "linger.ms": "9", "enable.idempotence": "true"}
    assert made.admin_properties == {**common, "retries": "1"}
    assert made.spark_properties == {"spark.sql.shuffle.partitions": "4"}


def test_what_is_said_for_one_client_wins():
    made = config(**{"retry.backoff.ms": 1, "producer.retry.backoff.ms": 2})
    assert made.producer_properties["retry.backoff.ms"] == "2"
    assert made.consumer_properties["retry.backoff.ms"] == "1"


def test_a_key_without_effect_is_noted_with_the_reason():
    (note,) = config(**{"poll.ms": 5}).notes
    assert note.startswith("poll.ms has no effect: ")
    assert len(config(**{"restore.consumer.x": 1, "topology.optimization": "all"}).notes) == 2


def test_a_renamed_key_works_and_is_noted():
    made = config(**{"cache.max.bytes.buffering": 0})
    assert not made.caching
    assert made.notes == ("cache.max.bytes.buffering is now statestore.cache.max.bytes",)


def test_the_new_name_wins_over_the_old_one():
    made = config(**{"statestore.cache.max.bytes": 5, "cache.max.bytes.buffering": 0})
    assert made.statestore_cache_max_bytes == 5


@pytest.mark.parametrize(
    ("key", "near"),
    [
        ("num.stream.thread", "num.stream.threads"),
        ("application_server", "application.server"),
        ("processing.guarantees", "processing.guarantee"),
    ],
)
def test_an_unknown_key_is_refused_with_the_nearest_known_one(key, near):
    with pytest.raises(ConfigError) as caught:
        config(**{key: "1"})
    assert caught.value.condition == "UNKNOWN_SETTING"
    assert repr(near) in caught.value.message


def test_a_key_like_no_other_is_refused_with_the_prefixes_there_are():
    with pytest.raises(ConfigError, match=r"'consumer\.'"):
        config(zzz=1)


@pytest.mark.parametrize(("given", "meant"), [("s3:/bucket/x", "s3://bucket/x"), ("file:/data/x", "file:///data/x")])
def test_a_location_with_one_slash_too_few_is_no_folder(given, meant):
    with pytest.raises(ConfigError, match=meant):
        config(**{"checkpoint.dir": given})


def test_the_application_id_is_required():
    with pytest.raises(ConfigError) as caught:
        StreamsConfig({})
    assert caught.value.condition == "MISSING_SETTING"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("application.id", "a/b"),
        ("application.id", ""),
        ("bootstrap.servers", "host"),
        ("bootstrap.servers", []),
        ("bootstrap.servers", "a:99999"),
        ("checkpoint.fsync", 1),
        ("commit.interval.ms", -1),
        ("commit.interval.ms", True),
        ("commit.interval.ms", 1.5),
        ("default.key.serde", "xml"),
        ("default.value.serde", int),
        ("default.timestamp.extractor", "yesterday"),
        ("deserialization.exception.handler", "ignore"),
        ("errors.dead.letter.queue.topic.name", " "),
        ("max.records.per.epoch", 0),
        ("num.stream.threads", 0),
        ("num.stream.threads", "many"),
        ("processing.form", "cells"),
        ("processing.guarantee", "exactly_once"),
        ("replication.factor", 0),
        ("state.dir", "s3://bucket"),
        ("state.dir", ""),
        ("topology.optimization", "everything"),
    ],
)
def test_a_value_that_is_not_allowed_is_refused_and_what_is_allowed_is_said(key, value):
    with pytest.raises(ConfigError) as caught:
        config(**{key: value})
    assert caught.value.condition == "INVALID_SETTING"
    assert key in caught.value.message and "allowed is" in caught.value.message
    assert caught.value.context["setting"] == key


def test_a_dead_letter_handler_needs_a_topic():
    settings = {"deserialization.exception.handler": "dead_letter"}
    with pytest.raises(ConfigError) as caught:
        config(**settings)
    assert caught.value.condition == "MISSING_SETTING"
    assert config(**settings, **{"errors.dead.letter.queue.topic.name": "d"}).dead_letter_topic == "d"


def test_a_config_cannot_be_changed():
    made = config()
    with pytest.raises(AttributeError):
        made.application_id = "other"


def test_a_config_survives_pickling():
    made = config(**{"producer.linger.ms": 5, "spark.x": "y", "poll.ms": 1})
    assert pickle.loads(pickle.dumps(made)) == made


@pytest.mark.parametrize(
    "master",
    ["spark://10.0.0.1:7077", "spark://a:7077,b:7077", "yarn", "k8s://https://host:6443", "local[2,4]", "local"],
)
def test_spark_runs_where_spark_master_says(master):
    assert config(**{"spark.master": master}).spark_properties["spark.master"] == master


@pytest.mark.parametrize("master", ["10.0.0.1:7077", "spark://host", "spark://", "k8s://", "mesos://a:1", "", 3])
def test_a_spark_master_that_is_none_is_refused(master):
    with pytest.raises(ConfigError, match="spark://host:port") as raised:
        config(**{"spark.master": master})
    assert raised.value.condition == "INVALID_SETTING"
