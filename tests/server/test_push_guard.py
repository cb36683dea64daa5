"""Push goes to no address that only this machine or its network can reach."""

from __future__ import annotations

import asyncio
from ipaddress import ip_network

import pytest
from google.api_core.exceptions import InvalidArgument

from fanlog.broker.clock import SystemClock
from fanlog.endpoints import parse_web
from fanlog.push import Guard
from fanlog.server.push import addresses
from fanlog.server.push.addresses import Addresses, AddressRefused
from fanlog.server.push.client import Client
from fanlog.server.push.gate import Gate
from server.receiver import receiving

PUBLIC = "93.184.216.34"


class Names:
    """A resolver that says something else each time, as an attacker's does."""

    def __init__(self, *answers: list[str]) -> None:
        self.answers = list(answers)
        self.asked = 0

    async def __call__(self, host: str) -> list[str]:
        self.asked += 1
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


@pytest.mark.parametrize(
    "url",
    [
        "http://10.0.0.1/", "http://169.254.169.254/latest/meta-data/", "http://[::1]:8080/",
        "http://[::ffff:10.0.0.1]/", "http://192.168.0.1:8086/v1/topics", "http://0.0.0.0/",
        "http://[fd00:ec2::254]/", "http://2130706433/", "http://0x7f.1/", "http://0177.0.0.1/",
    ],
)  # fmt: skip
def test_addresses_are_refused_when_a_subscription_is_made(server, url):
    with pytest.raises(InvalidArgument, match="push_endpoint"):
        server.topic_and_subscription(push_config={"push_endpoint": url})
    _, name = server.topic_and_subscription()
    with pytest.raises(InvalidArgument, match="push_endpoint"):
        server.subscriber.modify_push_config(subscription=name, push_config={"push_endpoint": url})


@pytest.mark.parametrize("answer", [["10.0.0.1"], ["::1"], ["::ffff:169.254.169.254"]])
def test_names_are_resolved_when_a_subscription_is_made(server, monkeypatch, answer):
    monkeypatch.setattr(addresses, "lookup", Names(answer))
    with pytest.raises(InvalidArgument, match="--push-allow"):
        server.topic_and_subscription(
            push_config={"push_endpoint": f"http://n{answer[0].replace(':', 'x')}.test-a.org/"}
        )


def test_a_name_that_does_not_resolve_is_refused(server, monkeypatch):
    async def nothing(_: str) -> list[str]:
        raise OSError(-2, "Name or service not known")

    monkeypatch.setattr(addresses, "lookup", nothing)
    with pytest.raises(InvalidArgument, match="does not resolve: Name or service not known"):
        server.topic_and_subscription(push_config={"push_endpoint": "http://nowhere.test-b.org/"})


async def _posted(url: str, *allowed: str) -> str:
    clock = SystemClock()
    found = Addresses(Guard(map(ip_network, allowed)), clock.now)
    client = Client(found, clock)
    client.start()
    try:
        outcome = await client.post(parse_web(url), b"", {}, 5.0)
    finally:
        await client.close()
    return outcome.reason or outcome.kind


async def test_rebinding_finds_nobody(monkeypatch):
    """Public when it is looked at, local when it is connected to: it is looked at each time."""
    with receiving() as receiver:
        names = Names([PUBLIC], ["127.0.0.1"])
        monkeypatch.setattr(addresses, "lookup", names)
        clock = SystemClock()
        found = Addresses(Guard(), clock.now)
        await found.check(parse_web(f"http://rebind.org:{receiver.port}/"))
        assert await _posted(f"http://rebind.org:{receiver.port}/") == "AddressRefused"
        assert names.asked == 2
        await found.close()
    assert receiver.received == []


async def test_what_is_checked_is_what_is_connected_to(monkeypatch):
    """The name is not asked a second time between the check and the connection."""
    with receiving() as receiver:
        names = Names(["10.1.1.1", "127.0.0.1"], [PUBLIC])
        monkeypatch.setattr(addresses, "lookup", names)
        assert await _posted(f"http://both.org:{receiver.port}/", "127.0.0.0/8") == "2xx"
        assert names.asked == 1
    assert len(receiver.received) == 1


@pytest.mark.parametrize("host", ["127.0.0.1", "[::ffff:127.0.0.1]"])
async def test_addresses_in_the_url_are_checked_at_each_attempt(host):
    with receiving() as receiver:
        assert await _posted(f"http://{host}:{receiver.port}/") == "AddressRefused"
        assert await _posted(f"http://{host}:{receiver.port}/", "127.0.0.0/8") == "2xx"
    assert len(receiver.received) == 1


def test_no_socket_is_made_for_a_refused_address():
    found = Addresses(Guard(), lambda: 0.0)
    with pytest.raises(AddressRefused):
        found.new_socket((2, 1, 6, "", ("127.0.0.1", 80)))
    with pytest.raises(AddressRefused):
        found.new_socket((10, 1, 6, "", ("fe80::1%eth0", 80, 0, 2)))


async def test_answers_are_believed_for_a_while(monkeypatch):
    now_s = 0.0
    names = Names([PUBLIC])
    monkeypatch.setattr(addresses, "lookup", names)
    found = Addresses(Guard(), lambda: now_s)
    assert await asyncio.gather(*(found.permitted("a.org") for _ in range(10))) == [[PUBLIC]] * 10
    assert names.asked == 1
    now_s = 31.0
    names.answers = [["127.0.0.1"]]
    with pytest.raises(AddressRefused):
        await found.permitted("a.org")
    await found.close()


async def test_a_full_host_holds_up_no_other():
    gate = Gate(per_host=1, total=2)
    await gate.enter("a")
    waiting = asyncio.create_task(gate.enter("a"))
    await asyncio.sleep(0)
    await gate.enter("b")
    assert not waiting.done()
    gate.leave("a")
    await waiting
    late = asyncio.create_task(gate.enter("b"))
    await asyncio.sleep(0)
    late.cancel()
    await asyncio.gather(late, return_exceptions=True)
    gate.leave("a")
    gate.leave("b")
    await gate.enter("b")


async def test_a_place_that_nobody_wants_any_more_goes_to_the_next():
    gate = Gate(per_host=1, total=1)
    assert gate.enter_nowait("a")
    assert not gate.enter_nowait("a")
    assert not gate.enter_nowait("b")
    first, second = (asyncio.create_task(gate.enter("a")) for _ in range(2))
    await asyncio.sleep(0)
    gate.leave("a")
    # It has the place, and does not know it yet.
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    await second
    gate.leave("a")
    assert gate.enter_nowait("b")
    assert gate._hosts.keys() == {"b"}
