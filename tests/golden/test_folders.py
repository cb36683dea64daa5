"""Data folders as earlier builds left them: they are opened for ever, with everything in them.

A folder of each shape that hard state had. A change to what records say adds a folder and a case;
it never changes one.
"""

from __future__ import annotations

import tarfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from fanlog.broker.assembly import build_broker
from fanlog.broker.audit import audit
from fanlog.broker.broker import Broker
from fanlog.broker.clock import ManualClock
from fanlog.broker.committer import InlineCommitter
from fanlog.broker.seal_key_file import new_seal_key, seal_keys
from fanlog.core import records as codec
from fanlog.core.records import (
    ArchivedRecord,
    ExportRecord,
    FormerTopicRecord,
    LakeRecord,
    LeaseHeld,
    ReopenedChunk,
    SchemaRecord,
    SchemaRevisionRecord,
    SecretRecord,
    SubscriptionRecord,
    TopicRecord,
)
from fanlog.core.seal_keys import NO_KEYS, SealKeys
from fanlog.errors import ConfigError, SchemaMismatch
from fanlog.log.doctor import examine
from fanlog.log.embedded import EmbeddedLog
from fanlog.log.salvage import salvage
from fanlog.model.specs import SubscriptionSpec, TopicSpec
from fanlog.model.updates import SubscriptionUpdate
from fanlog.wire import contents
from fanlog.wire.candidates import candidates
from fanlog.wire.forward import compose
from fanlog.wire.publish import build_body

HERE = Path(__file__).parent
FOLDERS = ["folder-1-first", "folder-2-routing", "folder-3-schemas", "folder-4-lake"]
TOPICS, SUBSCRIPTIONS = "projects/shop/topics/", "projects/shop/subscriptions/"
#: When the folders were written.
NOW_S = 1_700_000_000.0
#: The ack id of a lease that `ordered` of the first folder holds.
HELD = "00000008000000020000100000000002cd70bd01000000000000"


class Opened:
    """A broker on a folder, and short words for what is asked of it."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker

    async def publish(self, topic: str, data: bytes, **attributes: str) -> None:
        await self.broker.publish(TOPICS + topic, build_body([(data, attributes, "")]))

    async def take(self, name: str, max_messages: int = 10) -> list[tuple[bytes, int]]:
        """Data and delivery attempts of what is there, which is acknowledged."""
        found: list[tuple[bytes, int]] = []
        ack_ids: list[str] = []
        subscription, deliveries = await self.broker.pull(
            SUBSCRIPTIONS + name, max_messages=max_messages, wait_s=0.0
        )
        for delivery in deliveries:
            prefix = self.broker.ack_id_prefix(subscription, delivery)
            for batch, first, end in delivery.runs:
                for seen in candidates(batch, first, end, ""):
                    offset = int(seen.message_id[-12:])
                    attempt = delivery.attempts.get(offset, delivery.attempt)
                    found.append((seen.data, attempt))
                    ack_ids.append(f"{prefix}{offset:012x}")
        await self.broker.acknowledge(SUBSCRIPTIONS + name, ack_ids)
        return found

    async def data(self, name: str, max_messages: int = 10) -> set[bytes]:
        return {data for data, _ in await self.take(name, max_messages)}


@asynccontextmanager
async def opened(data_dir: Path, seal_keys: SealKeys = NO_KEYS) -> AsyncIterator[Opened]:
    log = EmbeddedLog(data_dir)
    broker = build_broker(
        log,
        InlineCommitter(log),
        ManualClock(NOW_S),
        compose=compose,
        candidates=candidates,
        contents=contents,
        jitter=lambda: 0.0,
        seal_keys=seal_keys,
    )
    try:
        await broker.start()
        yield Opened(broker)
        await broker.stop()
    finally:
        log.close()


Unpack = Callable[[str], Path]


@pytest.fixture
def unpack(tmp_path: Path) -> Unpack:
    def unpacked(name: str) -> Path:
        with tarfile.open(HERE / f"{name}.tar.gz") as archive:
            archive.extractall(tmp_path / name, filter="data")
        # One that has a lake beside it is in a folder of its own; `test_lake_folder` has the rest.
        beside = tmp_path / name / "data"
        return beside if beside.exists() else tmp_path / name

    return unpacked


async def test_the_first_folder(unpack: Unpack):
    """From before there were patterns and filters."""
    async with opened(unpack("folder-1-first")) as there:
        assert await there.take("plain") == [(b"order-3", 0), (b"order-5", 0)]
        assert await there.take("failing", 3) == [(b"order-0", 2), (b"order-1", 2), (b"order-2", 1)]
        assert await there.take("orphan") == [(b"left", 0)]
        # A lease of before is still held, and its ack id still good.
        assert await there.take("ordered") == []
        await there.broker.acknowledge(SUBSCRIPTIONS + "ordered", [HELD])
        assert await there.take("ordered") == [(b"order-1", 0)]
        broker = there.broker
        await broker.seeks.to_snapshot(SUBSCRIPTIONS + "plain", "projects/shop/snapshots/before")
        assert await there.data("plain") == {b"order-1", b"order-3", b"order-5"}


async def test_the_first_folder_takes_up_what_is_new(unpack: Unpack):
    data_dir = unpack("folder-1-first")
    async with opened(data_dir) as there:
        await there.take("plain")
        broker = there.broker
        changes = {"filter": 'colour = "red"'}
        update = SubscriptionUpdate(name=SUBSCRIPTIONS + "plain", changes=changes)
        assert (await broker.subscriptions.update(update)).filter == changes["filter"]
        spec = SubscriptionSpec(name=SUBSCRIPTIONS + "every", topic=TOPICS + "#")
        await broker.subscriptions.create(spec)
    async with opened(data_dir) as there:
        await there.publish("orders", b"red", colour="red")
        await there.publish("orders", b"blue", colour="blue")
        await there.publish("letters", b"letter")
        assert await there.data("plain") == {b"red"}
        assert await there.data("every") == {b"red", b"blue", b"letter"}


async def test_the_folder_with_patterns_and_filters(unpack: Unpack):
    async with opened(unpack("folder-2-routing")) as there:
        # Two messages of one topic were acknowledged, and another topic deleted with its backlog.
        expected = {b"orders.eu-red", b"orders.eu-blue", b"orders.us-green", b"orders.new-white"}
        assert await there.data("pattern") == expected
        # The first red one was acknowledged; then the filter was changed to blue.
        assert await there.data("filtered") == {b"orders.eu-red", b"orders.eu-blue"}
        names = [topic.name for topic in there.broker.hard.catalog.former_topics()]
        assert names == [TOPICS + "orders.us"]
        broker = there.broker
        await broker.seeks.to_snapshot(SUBSCRIPTIONS + "pattern", "projects/shop/snapshots/pattern")
        assert len(await there.take("pattern")) == 7
        await broker.topics.create(TopicSpec(name=TOPICS + "orders.asia"))
        await there.publish("orders.asia", b"joined")
        assert await there.data("pattern") == {b"joined"}


async def test_the_folder_with_schemas(unpack: Unpack):
    async with opened(unpack("folder-3-schemas")) as there:
        schema, revisions = await there.broker.schemas.revisions("projects/shop/schemas/order")
        assert (schema.type, schema.compatibility) == ("AVRO", "BACKWARD")
        assert [one.id for one in revisions] == ["24165af2", "4a71575b"]
        assert len(await there.take("checked")) == 7
        await there.publish("orders", b'{"id": "x", "count": 3}')
        await there.publish("orders", b'{"id": "x"}')
        with pytest.raises(SchemaMismatch, match="1 older revision does not take it either"):
            await there.publish("orders", b'{"id": 5}')
        assert len(await there.take("checked")) == 2
        orphan = await there.broker.topics.get(TOPICS + "orphan")
        assert orphan.schema_settings is not None
        assert orphan.schema_settings.schema_shown == "_deleted-schema_"


@pytest.mark.parametrize("name", FOLDERS)
def test_the_doctor_finds_nothing(name: str, unpack: Unpack):
    report = examine(unpack(name), inspect_state=audit)
    assert report.findings == []
    assert report.message_count >= 7


@pytest.mark.parametrize("name", FOLDERS)
async def test_a_start_with_a_seal_key_seals_the_secrets(name: str, unpack: Unpack):
    data_dir, keys = unpack(name), seal_keys([new_seal_key()])
    # A start of now makes secrets, which are plain.
    async with opened(data_dir) as there:
        plain = dict(there.broker.hard.identities.secrets)
        names = {one.name for one in there.broker.hard.catalog.subscriptions()}
    for _ in range(2):
        async with opened(data_dir, keys) as there:
            assert there.broker.hard.identities.secrets == plain
            assert {one.name for one in there.broker.hard.catalog.subscriptions()} == names
    with pytest.raises(ConfigError, match="--seal-key-file"):
        async with opened(data_dir):
            pass
    log = EmbeddedLog(data_dir)
    values = [value for key, value in log.state() if key[:1] == SecretRecord.KIND]
    log.close()
    assert len(values) == len(plain) == 2
    assert all(b"sealed:" in value for value in values)
    assert examine(data_dir, inspect_state=audit).findings == []


@pytest.mark.parametrize("name", FOLDERS)
def test_salvage_keeps_all_of_it(name: str, unpack: Unpack, tmp_path: Path):
    data_dir = unpack(name)
    report = salvage(data_dir, tmp_path / "saved", inspect_state=audit)
    assert report.findings == []
    states = []
    for folder in (data_dir, tmp_path / "saved"):
        log = EmbeddedLog(folder)
        states.append(list(log.state()))
        log.close()
    assert states[0] == states[1]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("folder-2-routing", {FormerTopicRecord, SubscriptionRecord}),
        ("folder-3-schemas", {SchemaRecord, SchemaRevisionRecord, TopicRecord}),
        ("folder-4-lake", {ArchivedRecord, ExportRecord, LakeRecord, LeaseHeld, ReopenedChunk}),
    ],
)
def test_records_are_written_as_they_were(name: str, expected: set[type], unpack: Unpack):
    log = EmbeddedLog(unpack(name))
    kinds = set()
    for key, value in log.state():
        record = codec.decode(key, value)
        kinds.add(type(record))
        assert (record.key(), record.value()) == (key, value)
    log.close()
    assert expected <= kinds


def test_every_golden_folder_is_tested():
    assert sorted(path.name for path in HERE.glob("*.tar.gz")) == [f"{n}.tar.gz" for n in FOLDERS]
