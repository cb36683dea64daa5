"""Clocks of nodes that differ, and what is left of leases when another node owns."""

from __future__ import annotations

import asyncio
import logging

import grpc
import pytest

from fanlog.cluster.term_clock import TermClock
from fanlog.log.replicated.replicated import MachineClock
from nodes.conftest import SESSION_S, Cluster


class ShiftedClock(MachineClock):
    """The clock of a machine that is so much ahead, and was started at another time."""

    def __init__(self, ahead_s: float) -> None:
        self._ahead_s = ahead_s

    def boottime_s(self) -> float:
        return super().boottime_s() + 1_000.0 * self._ahead_s

    def wall_ns(self) -> int:
        return super().wall_ns() + int(self._ahead_s * 1e9)


class DriftingClock(ShiftedClock):
    """A clock of the wall that goes on wrong; the steady one is as it was."""

    def __init__(self, ahead_s: float) -> None:
        super().__init__(ahead_s)
        self._drift_s = 0.0

    def drift(self, seconds: float) -> None:
        self._drift_s = seconds

    def wall_ns(self) -> int:
        return super().wall_ns() + int(self._drift_s * 1e9)


def test_two_terms_have_one_time():
    """Deadlines that one owner wrote mean the same to the next, whatever its own clock says."""
    one = TermClock(ShiftedClock(4.0), 4.0)
    two = TermClock(ShiftedClock(-3.0), -3.0)
    assert two.now() == pytest.approx(one.now(), abs=0.05)
    assert one.wall_ns() - two.wall_ns() == pytest.approx(7e9, abs=5e7)


def test_a_clock_that_is_set_changes_no_term():
    machine = ShiftedClock(0.0)
    clock = TermClock(machine, 0.0)
    before = clock.now()
    wall_ns = MachineClock.wall_ns

    class Set(ShiftedClock):
        def wall_ns(self) -> int:
            return wall_ns(self) + 3_600 * 10**9

    machine.__class__ = Set
    assert clock.now() == pytest.approx(before, abs=0.05)


async def test_leases_under_exactly_once_outlive_their_owner(cluster: Cluster):
    one = await cluster.start("a", clock=ShiftedClock(3.0))
    await cluster.until(lambda: one.is_owner)
    two = await cluster.start("b", clock=ShiftedClock(-3.0))
    await cluster.until(lambda: cluster.has_standbys(1))
    await one.make(enable_exactly_once_delivery=True)
    await one.publish(b"one", b"two")
    first, second = await one.pull()
    await one.acknowledge(first)
    await one.move("b")
    await cluster.until(lambda: two.is_owner)
    # Neither the one that was acknowledged, nor the one that is leased.
    assert await two.pull() == []
    shard = two.server.shard
    assert shard is not None
    [share] = shard.shard.broker.hard.shares()
    left_s = share.next_deadline() - shard.shard.broker.clock.now()
    assert 50 < left_s <= 60
    await two.acknowledge(second)
    assert await two.pull() == []
    with pytest.raises(grpc.aio.AioRpcError):
        await two.acknowledge(first)


async def test_generations_are_never_used_twice(cluster: Cluster):
    one, two = await cluster.start_all("a", "b")
    await one.make(enable_exactly_once_delivery=True)
    boots = []
    for node, to in ((one, "b"), (two, "a"), (one, "b")):
        await cluster.until(lambda node=node: node.is_owner)
        assert node.server.shard is not None
        boots.append(node.server.shard.shard.broker.hard.catalog.boots)
        await cluster.until(lambda: cluster.has_standbys(1))
        await one.move(to)
    assert boots == sorted(set(boots))


@pytest.mark.parametrize("ahead_s", [3600.0, -3600.0])
async def test_a_node_whose_clock_is_off_does_not_own(cluster: Cluster, ahead_s):
    one = await cluster.start("a")
    await cluster.until(lambda: one.is_owner)
    await one.make()
    two = await cluster.start("b", clock=ShiftedClock(ahead_s))
    await cluster.until(lambda: "clock" in two.server.node.trouble)
    await two.publish(b"by way of the one whose clock is off")
    one.cut()
    await asyncio.sleep(2 * SESSION_S)
    assert not two.is_owner
    status, text = await two.http("/readyz")
    assert "clock of this node is 3600 s" in text
    one.mend()
    await cluster.until(lambda: one.is_owner)
    assert status in (200, 503)


async def test_a_node_whose_clock_is_off_is_given_no_log(cluster: Cluster, caplog):
    """Neither on demand nor when the owner ends: others need not wait for its silence."""
    caplog.set_level(logging.INFO, "fanlog.cluster")
    one = await cluster.start("a")
    await cluster.until(lambda: one.is_owner)
    # By name it comes first.
    two = await cluster.start("b", clock=ShiftedClock(3600.0))
    three = await cluster.start("c")
    await cluster.until(lambda: "clock" in two.server.node.trouble)
    await cluster.until(lambda: cluster.has_standbys(2))
    standbys = one.server.node.standbys
    await cluster.until(lambda: any(each.obstacle for each in standbys.present(cluster.now())))
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await three.move("b")
    assert caught.value.code() == grpc.StatusCode.FAILED_PRECONDITION
    assert "'b' cannot own the log: the clock of this node is 3600 s" in caught.value.details()
    assert one.is_owner
    told = {each.name: each.trouble for each in (await three.describe()).nodes}
    assert "clock of this node" in told["b"]
    await one.stop()
    del cluster.nodes["a"]
    await cluster.until(lambda: three.is_owner)
    assert "action=hand_over to=c" in caplog.text


async def test_a_trouble_is_logged_once(cluster: Cluster, caplog):
    """Also when the number in its sentence changes."""
    one = await cluster.start("a")
    await cluster.until(lambda: one.is_owner)
    clock = DriftingClock(3600.0)
    two = await cluster.start("b", clock=clock)
    await cluster.until(lambda: "3600 s" in two.server.node.trouble)
    clock.drift(100.0)
    await cluster.until(lambda: "3700 s" in two.server.node.trouble)
    assert caplog.text.count("action=node_trouble node=b") == 1


async def test_the_first_node_does_not_own_with_a_clock_that_is_off(cluster: Cluster):
    one = await cluster.start("a", clock=ShiftedClock(3600.0))
    await cluster.until(lambda: "clock" in one.server.node.trouble)
    assert not one.is_owner
    status, _ = await one.http("/readyz")
    two = await cluster.start("b")
    await cluster.until(lambda: two.is_owner)
    assert status in (200, 503)
