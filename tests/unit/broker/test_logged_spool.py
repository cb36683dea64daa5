"""A node is lost in the middle of an epoch: the next owner publishes it, once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from fanlog import limits
from fanlog.broker.assembly import build_broker
from fanlog.broker.broker import Broker
from fanlog.broker.clock import ManualClock
from fanlog.broker.committer import InlineCommitter
from fanlog.broker.logged_spool import LoggedSpool
from fanlog.broker.verbs import sink as sink_module
from fanlog.core.sinks import StageKey
from fanlog.errors import CommitFailed, DataLoss, FanlogError, Fenced
from fanlog.log.batch import Batch
from fanlog.log.replicated.checkpoints import UpkeepPace
from fanlog.log.replicated.replicated import ReplicatedLog
from fanlog.model.specs import TopicSpec
from fanlog.testing.author import ALL_BYTES
from fanlog.testing.kafka_partition import KafkaTopic, ProduceFault
from fanlog.wire import contents
from fanlog.wire.candidates import candidates
from fanlog.wire.forward import compose
from fanlog.wire.publish import build_body
from replica_nodes import ReplicaNodes, read_all

TOPIC = "projects/p/topics/orders"
STAGES, ROWS = 3, 12
WHOLE = [b"%d-%d " % (stage, row) * 20 for stage in range(STAGES) for row in range(ROWS)]
KEYS = [StageKey("q", 0, stage, "a") for stage in range(STAGES)]


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "EPOCH_PART_BYTES", 1_000)
    monkeypatch.setattr(limits, "STAGE_WRITE_BYTES", 500)
    monkeypatch.setattr(sink_module, "RETRY_S", 0.0)


@pytest.fixture
def topic() -> KafkaTopic:
    return KafkaTopic("here")


@pytest.fixture
def nodes(tmp_path: Path, topic: KafkaTopic) -> Iterator[ReplicaNodes]:
    nodes = ReplicaNodes(tmp_path, topic)
    yield nodes
    nodes.close()


@asynccontextmanager
async def serving(log: ReplicatedLog) -> AsyncIterator[Broker]:
    """A broker of the present term."""
    broker = build_broker(
        log,
        InlineCommitter(log),
        ManualClock(),
        compose=compose,
        candidates=candidates,
        contents=contents,
        jitter=lambda: 0.0,
        spool=LoggedSpool(log, limits.STAGED_BYTES_MAX),
    )
    await broker.start()
    try:
        yield broker
    finally:
        try:
            await broker.stop()
        except FanlogError:
            assert log.standing.role != "owning"


async def stage_all(broker: Broker) -> None:
    for number, key in enumerate(KEYS):
        staging = await broker.sink.stage(key)
        for row in range(ROWS):
            data = WHOLE[number * ROWS + row]
            await staging.add(TOPIC, build_body([(data, {}, "")]), [row])
        assert (await staging.finish()).messages == ROWS


async def published(log: ReplicatedLog) -> list[bytes]:
    found: list[bytes] = []
    for partition in sorted(log.partitions()):
        for batch in await log.read(partition, 0, max_bytes=ALL_BYTES):
            assert isinstance(batch, Batch)
            starts = batch.starts
            found += [batch.content[starts[i] : starts[i + 1]] for i in range(batch.count)]
    return found


def bodies() -> list[bytes]:
    return [build_body([(data, {}, "")]).content for data in WHOLE]


async def make_topic(broker: Broker) -> None:
    await broker.topics.create(TopicSpec(name=TOPIC, message_retention_s=3_600.0))


@pytest.mark.parametrize("is_large", [True, False])
@pytest.mark.parametrize("lost_after", range(9))
async def test_the_next_owner_publishes_the_rest(
    nodes: ReplicaNodes, monkeypatch: pytest.MonkeyPatch, is_large: bool, lost_after: int
):
    monkeypatch.setattr(limits, "EPOCH_WHOLE_BYTES_MAX", 2_000 if is_large else 1 << 20)
    north, south = nodes.owner("north"), nodes.make("south")
    commit, count = north.commit, 0

    def commit_and_lose(one: object) -> None:
        nonlocal count
        if count == lost_after:
            assert south.take_over()
        count += 1
        commit(one)  # type: ignore[arg-type]

    async with serving(north) as broker:
        await make_topic(broker)
        await stage_all(broker)
        monkeypatch.setattr(north, "commit", commit_and_lose)
        committing = asyncio.create_task(broker.sink.commit("q", 0, KEYS))
        while not committing.done() and north.standing.role == "owning":
            await asyncio.sleep(0.001)
        is_done = committing.done() and committing.exception() is None
        if is_done and south.standing.role != "owning":
            assert south.take_over()
        committing.cancel()
    async with serving(south) as broker:
        # As a client that was not answered does, or was answered and asks again.
        assert await broker.sink.commit("q", 0, KEYS) in ((len(WHOLE), True), (len(WHOLE), False))
        assert await published(south) == bodies()
        assert await broker.sink.last_epoch("q") == 0
        assert list(south.stages_dir.glob("*")) == []
    read_all(north)
    assert await published(north) == bodies()
    assert list(north.stages_dir.glob("*")) == []


@pytest.mark.parametrize("fault", [f for f in ProduceFault if f is not ProduceFault.NONE])
async def test_faults_while_rows_are_staged(
    nodes: ReplicaNodes, topic: KafkaTopic, fault: ProduceFault
):
    north, south = nodes.owner("north"), nodes.make("south")
    async with serving(north) as broker:
        await make_topic(broker)
        topic.script(ProduceFault.NONE, ProduceFault.NONE, fault)
        is_lost = fault in (ProduceFault.LOST, ProduceFault.LATE)
        try:
            await stage_all(broker)
            assert not is_lost
        except CommitFailed:
            assert is_lost
    topic.arrive()
    assert south.take_over()
    async with serving(south) as broker:
        # A draft of the last owner is gone; so is its pin.
        assert south.unfinished_stages() == []
        await stage_all(broker)
        assert await broker.sink.commit("q", 0, KEYS) == (len(WHOLE), False)
        assert await published(south) == bodies()
        assert south._replica.story.marks.stages == {}


async def test_stages_are_not_trimmed(nodes: ReplicaNodes, topic: KafkaTopic):
    pace = UpkeepPace(
        checkpoint_bytes=3_000, snapshot_bytes_min=6_000, snapshot_factor=0, pause_s=0.0
    )
    north = nodes.make("north", pace=pace)
    assert north.take_over()
    async with serving(north) as broker:
        await make_topic(broker)
        await stage_all(broker)
        first = min(north._replica.story.marks.stages.values())
        for _ in range(50):
            north.renew(())
        assert topic.bounds().start <= first
        late = nodes.make("late")
        read_all(late)
        names = sorted(path.name for path in north.stages_dir.iterdir())
        assert len(names) == STAGES
        assert sorted(path.name for path in late.stages_dir.iterdir()) == names
        for name in names:
            assert (late.stages_dir / name).read_bytes() == (north.stages_dir / name).read_bytes()
        assert await broker.sink.commit("q", 0, KEYS) == (len(WHOLE), False)
        await asyncio.sleep(0)
        for _ in range(50):
            north.renew(())
        assert topic.bounds().start > first


async def test_a_damaged_stage_begins_the_cache_again(nodes: ReplicaNodes):
    """Other nodes have it whole: it is neither put aside nor forgotten."""
    north = nodes.owner("north")
    async with serving(north) as broker:
        await make_topic(broker)
        await stage_all(broker)
    path = min(north.stages_dir.iterdir())
    whole = path.read_bytes()
    path.write_bytes(whole[:-3])
    with pytest.raises(DataLoss, match="damaged"):
        await LoggedSpool(north, 1 << 20).load()
    north.step_down()
    read_all(north)
    assert north.standing.started_over == 1
    assert path.read_bytes() == whole
    assert north.take_over()
    async with serving(north) as broker:
        assert await broker.sink.commit("q", 0, KEYS) == (len(WHOLE), False)
        assert await published(north) == bodies()


async def test_nothing_is_staged_behind_a_discard(nodes: ReplicaNodes):
    north = nodes.owner("north")
    spool = LoggedSpool(north, 1 << 20)
    draft = await spool.draft("ab")
    writing = asyncio.create_task(draft.write([b"x"]))
    await asyncio.sleep(0)
    writing.cancel()
    await draft.discard()
    await draft.write([b"y"])
    assert north.unfinished_stages() == []
    assert north._replica.story.marks.stages == {}


async def test_a_node_that_owns_no_more_stages_nothing(nodes: ReplicaNodes):
    north = nodes.owner("north")
    draft = await LoggedSpool(north, 1 << 20).draft("ab")
    await draft.write([b"x"])
    north.step_down()
    with pytest.raises(Fenced):
        await draft.write([b"y"])
    # The next owner removes it.
    await draft.discard()
    assert north.unfinished_stages() == ["ab"]
