"""Keys by which personal fields are encrypted: one for each subject, in a compacted topic; without it they are noise.

Records of the topic: a random key id → the subject and its key, a tombstone once the subject is erased, and beside it
`erased/<subject>` → when, which stays. Keys are never in a store, so no delta, snapshot or checkpoint has them.
"""

from __future__ import annotations

import base64
import contextlib
import logging
import os
import threading
import time
import uuid
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from hayase.core.config import StreamsConfig
from hayase.core.decoding import decode_json
from hayase.core.errors import ConfigError, LogError, TopologyError
from hayase.core.records import SourceRecord, TopicPartition
from hayase.log.config import log_config
from hayase.log.open import open_log
from hayase.log.protocol import Log, LogConfig, OutputBatch
from hayase.patterns.erasure import ErasureStatus, tiers_of

_LOG = logging.getLogger("hayase.patterns")

_SETTINGS = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.0",
    "max.compaction.lag.ms": "60000",
    "delete.retention.ms": "60000",
    "segment.ms": "10000",
}
"""A deleted key is gone from the topic within minutes."""
_ERASED = "erased/"
_NEXT_SEGMENT = "~segment"
_AHEAD_MAX_MS = 3_000_000
"""Brokers refuse records that are an hour or more ahead of their time (message.timestamp.after.max.ms)."""
_REFRESH_S = 1.0
_KEY_BYTES, _NONCE_BYTES = 32, 12
_TRIES = 10


class _KeyRow(msgspec.Struct):
    subject: str
    key: str


class _ErasedRow(msgspec.Struct):
    subject: str
    time_ms: int


class SubjectErasedError(Exception):
    """A subject was erased between the reading of its data and the writing of what comes of it."""


class SubjectKeys:
    """The keys of the subjects whose personal data an application has; needs the extra `personal`.

    Aggregates that send each other personal data share one object. A key that was deleted is forgotten by every process
    within a second.

    Args:
        topic: of the keys; made when the first key is, or by `PatternsApp`. A reader of the topic can read the data.

    Raises:
        ConfigError: `PACKAGE_MISSING`: cryptography is not installed.
    """

    def __init__(self, topic: str) -> None:
        try:
            import cryptography.hazmat.primitives.ciphers.aead  # noqa: F401
        except ModuleNotFoundError as error:
            raise ConfigError(
                "PACKAGE_MISSING", "personal fields need the package cryptography: pip install 'hayase[personal]'"
            ) from error
        if not isinstance(topic, str) or not topic:
            raise TopologyError("INVALID_NAME", f"{topic!r} cannot name the topic of keys; give a text")
        self.topic = topic
        self._log_config: LogConfig | None = None
        self._forget()

    def _forget(self) -> None:
        self._lock = threading.RLock()
        self._log: Log | None = None
        self._process = os.getpid()
        self._in_memory = False
        self._keys: dict[str, tuple[str, bytes]] = {}
        self._of_subject: dict[str, str] = {}
        self._erased: dict[str, int] = {}
        self._offsets: dict[TopicPartition, int] = {}
        self._refreshed_s = float("-inf")
        self._ahead_ms = 0  # time of the last record that ended a segment
        self.erased_reads = 0  # how often `decrypt` found no key
        self._read = threading.local()  # ids of the keys that `reading` has used

    def __getstate__(self) -> dict[str, Any]:
        return {"topic": self.topic}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self.topic = state["topic"]
        self._log_config = None
        self._forget()

    def bind(self, config: StreamsConfig | Mapping[str, object]) -> None:
        """Say where the log is; only the first call counts. Applications and clients do it for their aggregates."""
        if self._log_config is None:
            if not isinstance(config, StreamsConfig):
                config = StreamsConfig({"application.id": "hayase-keys", **config})
            self._log_config = log_config(config)

    def use_memory(self) -> None:
        """Keep keys in this process alone: for tests with a driver."""
        self._in_memory = True

    def create_topic(self, log: Log) -> None:
        """Make the topic unless it is there, and refuse one that would keep deleted keys, or lose others.

        Raises:
            ConfigError: `KEYS_NOT_COMPACTED`.
        """
        if self.topic not in log.describe([self.topic]):
            try:
                log.create_topic(self.topic, 1, _SETTINGS)
            except LogError as error:
                if error.condition != "TOPIC_EXISTS":  # another process has just made it
                    raise
        policy = log.topic_config(self.topic).get("cleanup.policy", "delete")
        if policy != "compact":
            raise ConfigError(
                "KEYS_NOT_COMPACTED",
                f"topic {self.topic!r} holds keys of personal data and has cleanup.policy={policy}: keys would expire, "
                f"or deleted ones would stay. Set `hayase topics alter {self.topic} -c cleanup.policy=compact`",
                topic=self.topic,
            )

    @contextlib.contextmanager
    def reading(self) -> Iterator[None]:
        """What this thread decrypts in here is not encrypted under a later key: once it is erased, `encrypt` refuses.

        So an erasure that comes while the data of its subject is in the memory of a process erases that as well.
        """
        self._read.ids = set()
        try:
            yield
        finally:
            self._read.ids = None

    def encrypt(self, subject: str, data: bytes) -> dict[str, str]:
        """Data that only the key of the subject opens.

        Raises:
            LogError: the log cannot be reached.
            SubjectErasedError: a subject whose data was read is erased; see `reading`. Begin again.
        """
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        key_id, key = self._key_of(subject)
        if any(each not in self._keys for each in getattr(self._read, "ids", None) or ()):
            raise SubjectErasedError
        nonce = os.urandom(_NONCE_BYTES)
        sealed = nonce + AESGCM(key).encrypt(nonce, data, key_id.encode())
        return {"~key": key_id, "data": base64.b64encode(sealed).decode()}

    def decrypt(self, token: Mapping[str, Any]) -> bytes | None:
        """What `encrypt` was given; `None` if the key was deleted.

        Raises:
            LogError: the log cannot be reached.
            ValueError: it was tampered with.
        """
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        key_id = str(token["~key"])
        with self._lock:
            self._refresh_if_due()
            if key_id not in self._keys:
                self.refresh()
            found = self._keys.get(key_id)
            self.erased_reads += found is None
        if found is None:
            return None
        if (read := getattr(self._read, "ids", None)) is not None:
            read.add(key_id)
        sealed = base64.b64decode(str(token["data"]))
        try:
            return AESGCM(found[1]).decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], key_id.encode())
        except InvalidTag as error:
            raise ValueError("a personal field was changed: its seal does not fit its key") from error

    def erase(self, subject: str) -> int:
        """Delete the keys of a subject, in one write; how many there were. What they encrypted is unreadable then.

        Raises:
            LogError: the log cannot be reached.
        """
        with self._lock:
            self.refresh()
            ids = [key_id for key_id, (owner, _) in self._keys.items() if owner == subject]
            now_ms = time.time_ns() // 1_000_000
            marker = msgspec.json.encode(_ErasedRow(subject, now_ms))
            self._append([*((key_id, None) for key_id in ids), (_ERASED + subject, marker)], now_ms)
            self._end_segment(now_ms)
            self.refresh()
        return len(ids)

    def _end_segment(self, now_ms: int) -> None:
        """Have Kafka compact what was written so far, also where nothing more comes.

        A broker does not compact the segment that it writes to. It begins the next one with a record whose time is
        `segment.ms` behind that of the first record of the segment. So one that says nothing, of a time ahead, ends it.
        """
        log = self._opened()
        if log is None or self._log_config is None or self._log_config.kind != "kafka":
            return
        segment_ms = int(log.topic_config(self.topic).get("segment.ms", _SETTINGS["segment.ms"]))
        time_ms = max(now_ms, self._ahead_ms) + segment_ms + 1
        if time_ms - now_ms < _AHEAD_MAX_MS:  # else `status` does it later
            self._append([(_NEXT_SEGMENT, None)], time_ms)

    def refresh(self) -> None:
        """Take what was written since: new keys, deleted keys.

        Raises:
            LogError: the log cannot be reached.
        """
        self._after_fork()
        with self._lock:
            log = self._opened()
            if log is None:
                return
            self._refreshed_s = time.monotonic()
            info = log.describe([self.topic]).get(self.topic)
            if info is None:
                return
            places = [TopicPartition(self.topic, number) for number in range(info.partitions)]
            starts = log.start_offsets(places)
            reader = log.reader()
            try:
                for place, end in log.end_offsets(places).items():
                    start = max(self._offsets.get(place, 0), starts[place])
                    for batch in reader.fetch(place, start, end) if start < end else ():
                        for row in range(len(batch)):
                            self._take_record(batch.record(row))
                    self._offsets[place] = end
            finally:
                reader.close()

    def status(self, subject: str) -> ErasureStatus:
        """Whether the data of a subject is erased, and where its keys may still be.

        Raises:
            LogError: the log cannot be reached.
        """
        with self._lock:
            self.refresh()
            log = self._opened()
            left: list[str] = []
            tiers: tuple[str, ...] = ()
            if log is not None and self.topic in log.describe([self.topic]):
                left = self._left(log, subject)
                now_ms = time.time_ns() // 1_000_000
                if left and now_ms > max(self._ahead_ms, self._erased.get(subject, now_ms)):
                    self._end_segment(now_ms)
                tiers = tiers_of(log, [self.topic], "keys, also deleted ones")
            return ErasureStatus(subject, self._erased.get(subject), tuple(left), tiers)

    def erased_subject(self, record: SourceRecord) -> str | None:
        """The subject that a record of the topic says is erased; `None`: it says something else."""
        if record.value is None or not (record.key or b"").startswith(_ERASED.encode()):
            return None
        try:
            return decode_json(record.value, as_type=_ErasedRow).subject
        except msgspec.MsgspecError:  # a record of others
            return None

    def _left(self, log: Log, subject: str) -> list[str]:
        """Records of deleted keys of a subject that the topic still holds."""
        info = log.describe([self.topic])[self.topic]
        places = [TopicPartition(self.topic, number) for number in range(info.partitions)]
        starts, found = log.start_offsets(places), []
        reader = log.reader()
        try:
            for place, end in log.end_offsets(places).items():
                for batch in reader.fetch(place, starts[place], end) if starts[place] < end else ():
                    for row in range(len(batch)):
                        record = batch.record(row)
                        key_id = (record.key or b"").decode(errors="replace")
                        if record.value is None or key_id.startswith(_ERASED) or key_id in self._keys:
                            continue
                        with contextlib.suppress(msgspec.MsgspecError):  # a record of others
                            if decode_json(record.value, as_type=_KeyRow).subject == subject:
                                found.append(f"{place.partition}@{record.offset}")
        finally:
            reader.close()
        return found

    def _key_of(self, subject: str) -> tuple[str, bytes]:
        if not isinstance(subject, str) or not subject:
            raise ValueError(f"the subject of a personal field is {subject!r:.200}; it is a text that is not empty")
        with self._lock:
            self._refresh_if_due()
            if subject not in self._of_subject:
                self.refresh()
            for _ in range(_TRIES):  # another process may erase the subject in between
                key_id = self._of_subject.get(subject)
                if key_id is not None:
                    return key_id, self._keys[key_id][1]
                row = _KeyRow(subject, base64.b64encode(os.urandom(_KEY_BYTES)).decode())
                self._append([(uuid.uuid4().hex, msgspec.json.encode(row))], time.time_ns() // 1_000_000)
                self.refresh()
        raise LogError("KEY_NOT_READ", f"a key was written to {self.topic!r}, and is not there", topic=self.topic)

    def _take_record(self, record: SourceRecord) -> None:
        """Take a record of the topic; one of another format, which others wrote, is left out."""
        try:
            key = (record.key or b"").decode()
            if key == _NEXT_SEGMENT:
                self._ahead_ms = max(self._ahead_ms, record.timestamp_ms)
            self._take(key, record.value)
        except (ValueError, msgspec.MsgspecError) as error:
            _LOG.warning(
                "the record at offset %d of %r is no key and no erasure, and is left out: %s",
                record.offset, self.topic, type(error).__name__,
            )  # fmt: skip

    def _take(self, key: str, value: bytes | None) -> None:
        if key.startswith(_ERASED):
            if value is not None:
                row = decode_json(value, as_type=_ErasedRow)
                self._erased[row.subject] = row.time_ms
        elif value is None:
            subject, _ = self._keys.pop(key, ("", b""))
            if self._of_subject.get(subject) == key:
                del self._of_subject[subject]
        else:
            found = decode_json(value, as_type=_KeyRow)
            secret = base64.b64decode(found.key, validate=True)
            if len(secret) != _KEY_BYTES:
                raise ValueError(f"a key of {len(secret)} bytes")
            self._keys[key] = found.subject, secret
            self._of_subject.setdefault(found.subject, key)

    def _append(self, rows: list[tuple[str, bytes | None]], now_ms: int) -> None:
        log = self._opened()
        if log is None:
            for key, value in rows:
                self._take(key, value)
            return
        self.create_topic(log)
        writer = log.writer()
        try:
            keys: list[bytes | None] = [key.encode() for key, _ in rows]
            values = [value for _, value in rows]
            writer.append([OutputBatch(self.topic, keys, values, [now_ms] * len(rows), None, None)])
        finally:
            writer.close()

    def _refresh_if_due(self) -> None:
        self._after_fork()
        if time.monotonic() - self._refreshed_s > _REFRESH_S:
            self.refresh()

    def _after_fork(self) -> None:
        if self._process != os.getpid():
            in_memory = self._in_memory
            self._of_parent = self._log  # belongs to the process that forked this one; to close it here would hurt it
            self._forget()
            self._in_memory = in_memory

    def _opened(self) -> Log | None:
        if self._in_memory:
            return None
        if self._log is None:
            if self._log_config is None:
                raise ConfigError(
                    "KEYS_NOT_BOUND",
                    f"it is not known which log has the keys {self.topic!r}: call keys.bind(settings); in a "
                    "test with a driver keys.use_memory()",
                )
            self._log = open_log(self._log_config)
        return self._log

    def close(self) -> None:
        """Let go of the log; the next use opens it again."""
        with self._lock:
            log, self._log = self._log, None
            if log is not None and self._process == os.getpid():
                log.close()
