"""Spools: stages are whole or not there, and are read back as they were written."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from fanlog.broker import spool as spool_module
from fanlog.broker.logged_spool import LoggedSpool
from fanlog.broker.spool import FileSpool, MemorySpool, Spool, Stage
from fanlog.core.sinks import StageKey
from fanlog.errors import DataLoss, ResourceExhausted
from fanlog.log import batch as codec
from fanlog.model.resources import PartitionId
from fanlog.testing.conformance import make_body
from fanlog.testing.kafka_partition import KafkaTopic
from replica_nodes import ReplicaNodes

#: Of a stage with batches of the first version, and of the second.
GOLDEN_UNSEALED = Path(__file__).parents[2] / "golden" / "stage-v1.bin"
GOLDEN = Path(__file__).parents[2] / "golden" / "stage-v1-batch-v2.bin"
MIB = 1024 * 1024


def values_of(*sizes: int) -> list[bytes]:
    """Stored batches of one message each."""
    return [
        value
        for number, size in enumerate(sizes)
        for _, value in codec.encode(
            [make_body(bytes([number]) * size)],
            sequence=0,
            topic=3,
            partition=PartitionId(4),
            base_offset=number,
            publish_time_ns=0,
        )
    ]


def stage_of(values: list[bytes], stage_id: str = "ab") -> Stage:
    return Stage(
        id=stage_id,
        key=StageKey("q", 1, 2, "a"),
        messages=len(values),
        size_bytes=sum(map(len, values)),
        topics=(3,),
        staged_s=5.0,
    )


async def spooled(spool: Spool, values: list[bytes], stage_id: str = "ab") -> Stage:
    draft = await spool.draft(stage_id)
    for value in values:
        await draft.write([value])
    stage = stage_of(values, stage_id)
    await draft.finish(stage)
    return stage


@pytest.fixture(params=["memory", "files", "log"])
def spool(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Spool]:
    if request.param == "memory":
        yield MemorySpool(MIB)
    elif request.param == "files":
        yield FileSpool(tmp_path / "stages", MIB)
    else:
        nodes = ReplicaNodes(tmp_path, KafkaTopic())
        yield LoggedSpool(nodes.owner("north"), MIB)
        nodes.close()


def test_stages_are_read_in_portions(spool):
    async def scenario() -> None:
        values = values_of(10, 400_000, 20, 30)
        stage = await spooled(spool, values)
        seen, position, portions = [], 0, 0
        while position < stage.size_bytes:
            batches, position = await spool.read(stage, position, 250)
            assert batches
            seen += [batch.content for batch in batches]
            portions += 1
        assert seen == [codec.decode(value).content for value in values]
        assert portions == 3
        assert await spool.read(stage, position, 250) == ([], position)
        await spool.remove([stage, stage])
        with pytest.raises(DataLoss, match="gone"):
            await spool.read(stage, 0, 250)

    asyncio.run(scenario())


def test_drafts_are_no_stages(tmp_path):
    async def scenario() -> None:
        spool = FileSpool(tmp_path / "stages", MIB)
        assert await spool.load() == []
        stage = await spooled(spool, values_of(10))
        draft = await spool.draft("cd")
        await draft.write(values_of(10))
        await (await spool.draft("ef")).discard()
        assert len(list((tmp_path / "stages").iterdir())) == 2
        assert await FileSpool(tmp_path / "stages", MIB).load() == [stage]
        await draft.discard()
        assert [path.name for path in (tmp_path / "stages").iterdir()] == ["ab.stage"]

    asyncio.run(scenario())


def test_the_first_drafts_agree_on_the_folder(tmp_path, monkeypatch):
    """Asked for at once: one makes it, and none goes on before it would survive a power cut."""
    syncing, may_go_on = threading.Event(), threading.Event()

    def sync(_: Path) -> None:
        syncing.set()
        assert may_go_on.wait(60)

    monkeypatch.setattr(spool_module, "_sync_folder", sync)

    async def scenario() -> None:
        spool = FileSpool(tmp_path / "stages", MIB)
        first = asyncio.create_task(spool.draft("ab"))
        assert await asyncio.to_thread(syncing.wait, 60)
        others = [asyncio.create_task(spool.draft(f"c{number}")) for number in range(3)]
        done, _ = await asyncio.wait([first, *others], timeout=0.2)
        assert not done
        may_go_on.set()
        for draft in await asyncio.gather(first, *others):
            await draft.discard()

    asyncio.run(scenario())


def test_every_flipped_bit_is_noticed(tmp_path):
    async def scenario() -> None:
        spool = FileSpool(tmp_path / "stages", MIB)
        stage = await spooled(spool, values_of(5, 6))
        path = tmp_path / "stages" / "ab.stage"
        whole = path.read_bytes()
        for index in range(len(whole)):
            path.write_bytes(whole[:index] + bytes([whole[index] ^ 1]) + whole[index + 1 :])
            loaded = await spool.load()
            if index < stage.size_bytes:
                assert loaded == [stage]
                with pytest.raises(DataLoss, match="damaged at byte"):
                    await spool.read(stage, 0, MIB)
            else:
                assert loaded == [], index
                (tmp_path / "stages" / "ab.damaged").rename(path)
        for length in range(len(whole)):
            path.write_bytes(whole[:length])
            assert await spool.load() == []
            (tmp_path / "stages" / "ab.damaged").rename(path)

    asyncio.run(scenario())


def test_a_file_of_another_name_is_none(tmp_path):
    async def scenario() -> None:
        spool = FileSpool(tmp_path / "stages", MIB)
        await spooled(spool, values_of(5))
        (tmp_path / "stages" / "ab.stage").rename(tmp_path / "stages" / "cd.stage")
        assert await spool.load() == []

    asyncio.run(scenario())


def test_a_disk_that_takes_no_more(tmp_path):
    async def scenario() -> None:
        draft = await FileSpool(tmp_path / "stages", MIB).draft("ab")
        draft._file.close()
        draft._file = open("/dev/full", "wb", buffering=0)  # noqa: SIM115
        with pytest.raises(ResourceExhausted, match="cannot be staged"):
            await draft.write([b"x"])
        draft._file.close()

    asyncio.run(scenario())


def test_the_file_is_as_it_ever_was(tmp_path):
    async def scenario() -> None:
        values = values_of(5, 6)
        stage = await spooled(FileSpool(tmp_path / "stages", MIB), values)
        assert (tmp_path / "stages" / "ab.stage").read_bytes() == GOLDEN.read_bytes()
        for golden in (GOLDEN_UNSEALED, GOLDEN):
            (tmp_path / "stages" / "ab.stage").write_bytes(golden.read_bytes())
            assert await FileSpool(tmp_path / "stages", MIB).load() == [stage]

    asyncio.run(scenario())


async def test_a_draft_whose_asker_left_is_not_left_behind(tmp_path: Path) -> None:
    spool = FileSpool(tmp_path / "stages", MIB)
    asking = asyncio.create_task(spool.draft("ab"))
    await asyncio.sleep(0)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert list((tmp_path / "stages").iterdir()) == []
