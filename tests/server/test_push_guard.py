"""Push goes to no address that only this machine or its network can reach."""

from __future__ import annotations

import asyncio
from ipaddress import ip_network

import pytest
from google.api_core.exceptions import InvalidArgument

from fanlog.broker.clock import ManualClock, SystemClock
from fanlog.model.endpoints import parse_web
from fanlog.push.rules.guard import Guard
from fanlog.push.rules.packing import Request
from fanlog.push.senders import host_resolver
from fanlog.push.senders.connection_limiter import ConnectionLimiter
from fanlog.push.senders.host_resolver import AddressRefused, HostResolver
from fanlog.push.senders.web_transport import WebTransport
from fanlog.wire import types
from server import grpc_receiver
from server.conftest import PATIENCE_S
from server.receiver import receiving
from server.unique import unique

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
    monkeypatch.setattr(host_resolver, "lookup", Names(answer))
    with pytest.raises(InvalidArgument, match="--push-allow"):
        server.topic_and_subscription(
            push_config={"push_endpoint": f"http://n{answer[0].replace(':', 'x')}.test-a.org/"}
        )


async def nowhere(_: str) -> list[str]:
    raise OSError(-2, "Name or service not known")


@pytest.mark.parametrize("scheme", ["http", "grpc"])
def test_a_name_that_does_not_resolve_yet_is_accepted_and_tried(start_server, monkeypatch, scheme):
    names = Names([])
    monkeypatch.setattr(host_resolver, "lookup", nowhere)
    kind = receiving if scheme == "http" else grpc_receiver.receiving
    with kind() as receiver:
        server = start_server("memory", clock=ManualClock())
        url = f"{scheme}://later.test-b.org:{receiver.port}"
        topic, name = server.topic_and_subscription(push_config={"push_endpoint": url})
        server.publish(topic, b"x")
        # At once, and once more at once.
        server.await_metric("fanlog_push_attempts_total", name, 2)
        # Names are asked about at every attempt, and addresses judged: this one is refused.
        names.answers = [["10.0.0.1"]]
        monkeypatch.setattr(host_resolver, "lookup", names)
        server.await_metric("fanlog_nacks_total", name, 2)
        server.advance(1.25)
        server.await_metric("fanlog_push_attempts_total", name, 3)
        assert names.asked == 1
        assert receiver.received == []
        sender = next(iter(server.senders))
        assert sender.last_reason == "AddressRefused"
        # What a name resolved to is believed for a while.
        names.answers = [["127.0.0.1"]]
        server.await_metric("fanlog_nacks_total", name, 3)
        server.advance(600)
        server.await_drained(name)
        assert len(receiver.received) == 1


def test_a_hint_says_that_a_name_does_not_resolve(server, monkeypatch):
    monkeypatch.setattr(host_resolver, "lookup", nowhere)
    topic, unresolved = server.topic(), "http://nowhere.test-b.org/"
    word = "'nowhere.test-b.org', does not resolve: Name or service not known; it is"
    name = f"projects/test/subscriptions/{unique('nowhere')}"
    push = {"push_endpoint": unresolved}
    made = hints(server, "CreateSubscription", name=name, topic=topic, push_config=push)
    assert len(made) == 1
    assert word in made[0]
    changed = {"name": name, "push_config": push}
    mask = {"paths": ["push_config"]}
    [hint] = hints(server, "UpdateSubscription", subscription=changed, update_mask=mask)
    assert word in hint
    [hint] = hints(server, "ModifyPushConfig", subscription=name, push_config=push)
    assert word in hint
    assert not hints(server, "ModifyPushConfig", subscription=name, push_config={})


def hints(server, method, **fields):
    """Call a method of Subscriber; the hints that come with its answer."""
    request = {
        "CreateSubscription": types.Subscription,
        "UpdateSubscription": types.UpdateSubscriptionRequest,
        "ModifyPushConfig": types.ModifyPushConfigRequest,
    }[method](**fields)
    with server.channel() as channel:
        call = channel.unary_unary(f"/google.pubsub.v1.Subscriber/{method}")
        _, done = call.with_call(request.SerializeToString(), timeout=PATIENCE_S)
    return [value for key, value in done.trailing_metadata() or () if key == "fanlog-hint"]


def test_what_is_no_name_is_refused(server, monkeypatch):
    async def none(_: str) -> list[str]:
        raise UnicodeError("label too long")

    monkeypatch.setattr(host_resolver, "lookup", none)
    with pytest.raises(InvalidArgument, match=r"'odd\.test-c\.org' is not a host name: label too"):
        server.topic_and_subscription(push_config={"push_endpoint": "http://odd.test-c.org/"})


async def _posted(url: str, *allowed: str) -> str:
    clock = SystemClock()
    found = HostResolver(Guard(map(ip_network, allowed)), clock.now)
    transport = WebTransport(found, clock)
    try:
        outcome = await transport.send(Request(parse_web(url), (), b"", {}, 5.0))
    finally:
        await transport.close()
    return outcome.reason or outcome.kind


async def test_rebinding_finds_nobody(monkeypatch):
    """Public when it is looked at, local when it is connected to: it is looked at each time."""
    with receiving() as receiver:
        names = Names([PUBLIC], ["127.0.0.1"])
        monkeypatch.setattr(host_resolver, "lookup", names)
        clock = SystemClock()
        found = HostResolver(Guard(), clock.now)
        await found.check(parse_web(f"http://rebind.org:{receiver.port}/"))
        assert await _posted(f"http://rebind.org:{receiver.port}/") == "AddressRefused"
        assert names.asked == 2
        await found.close()
    assert receiver.received == []


async def test_what_is_checked_is_what_is_connected_to(monkeypatch):
    """The name is not asked a second time between the check and the connection."""
    with receiving() as receiver:
        names = Names(["10.1.1.1", "127.0.0.1"], [PUBLIC])
        monkeypatch.setattr(host_resolver, "lookup", names)
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
    found = HostResolver(Guard(), lambda: 0.0)
    with pytest.raises(AddressRefused):
        found.new_socket((2, 1, 6, "", ("127.0.0.1", 80)))
    with pytest.raises(AddressRefused):
        found.new_socket((10, 1, 6, "", ("fe80::1%eth0", 80, 0, 2)))


async def test_answers_are_believed_for_a_while(monkeypatch):
    now_s = 0.0
    names = Names([PUBLIC])
    monkeypatch.setattr(host_resolver, "lookup", names)
    found = HostResolver(Guard(), lambda: now_s)
    assert (
        await asyncio.gather(*(found.resolve_permitted("a.org") for _ in range(10)))
        == [[PUBLIC]] * 10
    )
    assert names.asked == 1
    now_s = 31.0
    names.answers = [["127.0.0.1"]]
    with pytest.raises(AddressRefused):
        await found.resolve_permitted("a.org")
    await found.close()


async def test_a_full_host_holds_up_no_other():
    connections = ConnectionLimiter(per_host=1, total=2)
    await connections.enter("a")
    waiting = asyncio.create_task(connections.enter("a"))
    await asyncio.sleep(0)
    await connections.enter("b")
    assert not waiting.done()
    connections.leave("a")
    await waiting
    late = asyncio.create_task(connections.enter("b"))
    await asyncio.sleep(0)
    late.cancel()
    await asyncio.gather(late, return_exceptions=True)
    connections.leave("a")
    connections.leave("b")
    await connections.enter("b")


async def test_a_place_that_nobody_wants_any_more_goes_to_the_next():
    connections = ConnectionLimiter(per_host=1, total=1)
    assert connections.enter_nowait("a")
    assert not connections.enter_nowait("a")
    assert not connections.enter_nowait("b")
    first, second = (asyncio.create_task(connections.enter("a")) for _ in range(2))
    await asyncio.sleep(0)
    connections.leave("a")
    # It has the place, and does not know it yet.
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    await second
    connections.leave("a")
    assert connections.enter_nowait("b")
    assert connections._hosts.keys() == {"b"}
