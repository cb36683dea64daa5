"""The tenure of an owner, and the guard that asks it, on a clock of the test."""

from __future__ import annotations

import asyncio

import pytest

from fanlog.cluster.guard import TenureGuard
from fanlog.cluster.ownership import OwnerSession
from fanlog.cluster.tenure import OwnerTenure
from fanlog.errors import NotFound, Unavailable
from fanlog.transport.methods import RpcMethod


class World:
    """An owner whose last record was sent at 100, at 100."""

    def __init__(self, *, from_s: float = 0.0, hold_s: float = 20.0) -> None:
        self.now = self.renewed_s = 100.0
        self.told = 0
        self.tenure = OwnerTenure(
            OwnerSession(3.0),
            from_s=from_s,
            renewed_s=lambda: self.renewed_s,
            boottime_s=lambda: self.now,
            hold_s=hold_s,
        )
        self.tenure.on_sure.listen(lambda _: self.tell())
        self.guard = TenureGuard(self.tenure, lambda error: (503, [], error.message.encode()))

    def tell(self) -> None:
        self.told += 1

    def renew(self) -> None:
        self.renewed_s = self.now
        self.tenure.look()


async def beginning(work) -> asyncio.Task:
    """A task that has begun, and waits for something."""
    task = asyncio.ensure_future(work)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    return task


async def test_it_is_sure_for_half_a_session():
    world = World()
    assert world.tenure.is_sure
    world.now = 101.5
    assert not world.tenure.is_sure
    world.renew()
    assert world.tenure.is_sure
    assert world.told == 1


async def test_it_has_begun_once_no_owner_before_it_can_answer():
    """Only then is the log handed over: whoever takes a log over that was left answers at once."""
    world = World(from_s=101.0)
    assert not world.tenure.has_begun
    world.now = 101.0
    assert world.tenure.has_begun
    # It lasts, also where the owner is not sure any more.
    world.now = 110.0
    assert not world.tenure.is_sure
    assert world.tenure.has_begun


async def test_whoever_waits_goes_on_with_the_next_renewal():
    world = World()
    world.now = 102.0
    waiting = await beginning(world.tenure.sure())
    assert not waiting.done()
    world.tenure.look()
    await asyncio.sleep(0)
    assert not waiting.done()
    world.renew()
    await waiting
    assert world.tenure.held == 1


async def test_a_successor_waits_for_its_predecessor():
    world = World(from_s=100.7)
    waiting = await beginning(world.tenure.sure())
    world.now = 100.7
    world.tenure.look()
    await waiting


async def test_what_is_over_is_never_sure_again():
    world = World()
    world.now = 102.0
    waiting = await beginning(world.tenure.sure())
    world.tenure.end()
    with pytest.raises(Unavailable, match="does not own"):
        await waiting
    world.renew()
    assert not world.tenure.is_sure
    assert world.told == 0


async def test_calls_wait_for_a_bounded_time():
    world = World(hold_s=0.01)
    world.now = 102.0
    with pytest.raises(Unavailable, match="could not reach"):
        await world.tenure.sure()


def unary(guard: TenureGuard, verb):
    [method] = guard.methods([RpcMethod("/s/M", 10, unary=verb)])
    assert method.unary is not None
    return method.unary


async def test_an_answer_waits_until_the_owner_is_sure():
    """It was sure when the call came, and is not when the verb has looked at its state."""
    world = World()

    async def verb(raw: bytes, call: object) -> bytes:
        world.now = 102.0
        return b"as of a while ago"

    calling = await beginning(unary(world.guard, verb)(b"", None))
    assert not calling.done()
    world.renew()
    assert await calling == b"as of a while ago"


@pytest.mark.parametrize("error", [NotFound("nothing"), AssertionError("a mistake")])
async def test_what_a_deposed_owner_found_wrong_is_not_told(error):
    world = World()

    async def verb(raw: bytes, call: object) -> bytes:
        world.tenure.end()
        raise error

    with pytest.raises(Unavailable):
        await unary(world.guard, verb)(b"", None)


async def test_errors_of_an_owner_that_is_sure_are_told():
    async def verb(raw: bytes, call: object) -> bytes:
        raise NotFound("nothing")

    with pytest.raises(NotFound):
        await unary(World().guard, verb)(b"", None)


async def test_unguarded_methods_are_as_they_were():
    method = RpcMethod("/fanlog.v1.Cluster/DescribeCluster", 10, unary=None)
    assert World().guard.methods([method], ("/fanlog.v1.Cluster/",)) == [method]


async def test_calls_under_way_are_waited_for():
    world = World()
    over = asyncio.Event()

    async def verb(raw: bytes, call: object) -> bytes:
        await over.wait()
        return b""

    calling = await beginning(unary(world.guard, verb)(b"", None))
    settling = await beginning(world.guard.settle(20.0))
    assert not settling.done()
    over.set()
    await calling
    await settling
    await world.guard.settle(0.0)


async def answered(world: World, app) -> list[dict]:
    sent: list[dict] = []

    async def send(message) -> None:
        sent.append(message)

    async def receive():
        raise AssertionError("nothing is read")

    guarded = world.guard.app(app, ("/v1/cluster",))
    await guarded({"type": "http", "path": "/v1/x"}, receive, send)
    return sent


async def ok(scope, receive, send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"ok"})


async def test_http_waits_as_calls_do():
    world = World()
    world.now = 102.0
    asking = await beginning(answered(world, ok))
    assert not asking.done()
    world.renew()
    assert [each["type"] for each in await asking] == [
        "http.response.start",
        "http.response.body",
    ]


async def test_http_of_a_deposed_owner_is_refused_whole():
    world = World()

    async def late(scope, receive, send) -> None:
        world.tenure.end()
        await ok(scope, receive, send)

    head, body = await answered(world, late)
    assert head["status"] == 503
    assert b"does not own" in body["body"]
