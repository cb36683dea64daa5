"""The log is moved from node to node, and nothing of a term stays behind."""

from __future__ import annotations

import asyncio
import gc
import threading

import grpc
import psutil
import pytest

from nodes.conftest import Cluster


async def test_moving_on_demand(cluster: Cluster):
    one, two, three = await cluster.start_all("a", "b", "c")
    await one.make()
    # By way of a node that does not own.
    answer = await two.move("c")
    assert (getattr(answer, "from"), answer.to) == ("a", "c")
    await cluster.until(lambda: three.is_owner)
    await one.publish(b"to c")
    answer = await three.move()
    assert answer.to in ("a", "b")
    await cluster.until(lambda: cluster.nodes[answer.to].is_owner)
    assert [each.message.data for each in await three.pull()] == [b"to c"]


@pytest.mark.parametrize(
    ("name", "why"), [("a", "owns the log already"), ("x", "'x' is not a standby")]
)
async def test_moving_to_a_node_that_cannot_own(cluster: Cluster, name, why):
    one, _ = await cluster.start_all("a", "b")
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await one.move(name)
    assert caught.value.code() == grpc.StatusCode.FAILED_PRECONDITION
    assert why in caught.value.details()
    assert one.is_owner


async def test_moving_where_there_is_no_other(cluster: Cluster):
    [one] = await cluster.start_all("a")
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await one.move()
    assert "no standby" in caught.value.details()


async def test_publishers_see_no_error(cluster: Cluster):
    one, two, three = await cluster.start_all("a", "b", "c")
    await one.make()
    ids: list[str] = []
    is_over = asyncio.Event()

    async def publish() -> None:
        while not is_over.is_set():
            ids.extend(await three.publish(b"x"))

    publishing = asyncio.create_task(publish())
    for to in ("b", "a", "c"):
        await three.move(to)
        await cluster.until(lambda to=to: cluster.nodes[to].is_owner)
        await cluster.until(lambda: cluster.has_standbys(2))
        # Of what is published in this term, one was not under way before.
        published = len(ids)
        await cluster.until(lambda published=published: len(ids) > published + 1)
    is_over.set()
    await publishing
    assert len(ids) == len(set(ids)) > 3
    found = await two.pull(1_000)
    assert sorted(one.message.message_id for one in found) == sorted(ids)[: len(found)]


async def test_terms_leave_nothing_behind(cluster: Cluster):
    """Threads, tasks, files, sockets and processes are as many after ten terms as after two."""
    one, _ = await cluster.start_all("a", "b")
    await one.make()

    async def there_and_back() -> None:
        for to in ("b", "a"):
            await one.move(to)
            await cluster.until(lambda to=to: cluster.nodes[to].is_owner)
            await cluster.until(lambda: cluster.has_standbys(1))
            await one.publish(b"x")

    def held() -> dict[str, int]:
        gc.collect()
        process = psutil.Process()
        return {
            "threads": threading.active_count(),
            "tasks": len(asyncio.all_tasks()),
            "files": process.num_fds(),
            "processes": len(process.children()),
        }

    await there_and_back()
    before = held()
    for _ in range(4):
        await there_and_back()
    after = held()
    # A task or a thread may be about to end.
    assert all(after[name] <= before[name] + 2 for name in before), (before, after)
