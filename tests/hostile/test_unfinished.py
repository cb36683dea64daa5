"""Requests that are never finished: each is bounded in bytes or in time, and in all.

Against a server with its own limits. Bytes of memory are those of the process, before and after.
"""

from __future__ import annotations

import http.client
import resource
import struct
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from acceptance.served import Served
from fanlog import limits
from fanlog.transport import http1
from fanlog.wire import types
from hostile import http2
from hostile.http2 import CALL, DATA, END_HEADERS, HEADERS, START, frame
from hostile.uploads import Upload, half_bodies
from hostile.victim import Victim

MIB = 1024 * 1024
GIVEN_UP = "fanlog_requests_given_up_total"
LIST = b"/google.pubsub.v1.Publisher/ListTopics"


@pytest.fixture
def victim(tmp_path: Path) -> Iterator[Victim]:
    """A server of a test's own: what another left in its memory would hide what this one costs."""
    served = Served(tmp_path / "data", tmp_path / "server.log")
    try:
        served.start()
        one = Victim(served)
        # Everything that the first call makes is there.
        one.still_serves()
        yield one
    finally:
        served.close()


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as one:
        yield one


def measured(name: str, before: int, victim: Victim) -> None:
    """For the record: what it cost."""
    grown, stays = (victim.peak() - before) // MIB, (victim.memory() - before) // MIB
    sys.stdout.write(f"{name}: at most {grown} MiB more, {stays} MiB more at the end\n")


def wait_until(is_so: Callable[[], bool], wait_s: float = 20.0) -> None:
    late_s = time.monotonic() + wait_s
    while not is_so():
        assert time.monotonic() < late_s
        time.sleep(0.02)


def healthy(address: str) -> bool:
    host, _, port = address.rpartition(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=10)
    try:
        connection.request("GET", "/healthz")
        return connection.getresponse().status == 200
    finally:
        connection.close()


@pytest.mark.slow
def test_sixty_half_bodies(victim: Victim, stack: ExitStack) -> None:
    """840 MB of bodies are sent; those that are too many are given up, the oldest first."""
    before, too_many = victim.memory(), victim.count(GIVEN_UP, "too_many")
    victim.forget_peak()
    connections = [stack.enter_context(victim.connect(http=True)) for _ in range(60)]
    for connection in connections:
        half_bodies(connection, 14_000_000, 16_000_000)
    wait_until(lambda: victim.count(GIVEN_UP, "too_many") > too_many)
    assert connections[0].recv(100).startswith(b"HTTP/1.1 503 ")
    victim.still_serves()
    # A body in parts and whole, for a moment.
    assert victim.peak() - before < limits.UNFINISHED_BYTES_MAX + 64 * MIB
    stack.close()
    wait_until(lambda: victim.memory() - before < 64 * MIB)
    measured("60 half bodies", before, victim)


@pytest.mark.slow
def test_sixty_half_messages(victim: Victim, stack: ExitStack) -> None:
    """1.2 GB announced, half of it sent."""
    before, too_many = victim.memory(), victim.count(GIVEN_UP, "too_many")
    victim.forget_peak()
    uploads = [Upload(stack.enter_context(victim.connect()), LIST) for _ in range(60)]
    for upload in uploads:
        upload.send(b"\0" + struct.pack(">I", 20_000_000) + bytes(10_000_000))
    assert victim.count(GIVEN_UP, "too_many") > too_many
    victim.still_serves()
    assert victim.peak() - before < limits.UNFINISHED_BYTES_MAX + 64 * MIB
    stack.close()
    wait_until(lambda: victim.memory() - before < 64 * MIB)
    measured("60 half messages", before, victim)


@pytest.mark.slow
def test_half_messages_on_one_connection_wait_for_their_turn(
    victim: Victim, stack: ExitStack
) -> None:
    """Sixty streams on one connection: no more is credited than one connection may hold."""
    before = victim.memory()
    victim.forget_peak()
    connection = stack.enter_context(victim.connect(timeout_s=1.0))
    connection.sendall(START)
    credited = 0
    for stream in range(1, 120, 2):
        begin = b"\0" + struct.pack(">I", 20_000_000)
        connection.sendall(
            frame(HEADERS, END_HEADERS, stream, CALL) + frame(DATA, 0, stream, begin)
        )
    rest = b""
    try:
        while raw := connection.recv(1 << 16):
            rest += raw
    except TimeoutError:
        pass
    while rest:
        end = 9 + int.from_bytes(rest[:3])
        if rest[3] == 8 and int.from_bytes(rest[5:9]):
            credited += int.from_bytes(rest[9:end])
        rest = rest[end:]
    assert 20_000_000 < credited <= limits.CREDITED_BYTES_MAX
    victim.still_serves()
    measured("60 half messages on one connection", before, victim)


def test_pipelined_requests_wait_in_the_socket(victim: Victim) -> None:
    """200,000 of them, and no answer is read."""
    before = victim.memory()
    victim.forget_peak()
    request = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n"
    with victim.connect(http=True, timeout_s=2.0) as connection:
        with pytest.raises(TimeoutError):
            connection.sendall(request * 200_000)
        victim.still_serves()
        assert victim.peak() - before < 16 * MIB
    measured("200,000 pipelined requests", before, victim)


def test_a_head_of_megabytes(victim: Victim) -> None:
    before, too_long = victim.memory(), victim.count(GIVEN_UP, "too_long")
    victim.forget_peak()
    line = b"x-many: " + b"v" * 1_000 + b"\r\n"
    for more in ([line] * 64_000, [b"x-long: ", *[b"v" * 1_000] * 64_000]):
        with victim.connect(http=True) as connection:
            connection.sendall(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n")
            sent = http2.send_all(connection, more)
            assert sent < 16 * MIB
    assert victim.count(GIVEN_UP, "too_long") == too_long + 2
    assert victim.peak() - before < 16 * MIB
    victim.still_serves()
    measured("64 MB of headers", before, victim)


@pytest.mark.slow
def test_two_thousand_half_heads_are_gone_after_their_time(
    victim: Victim, stack: ExitStack
) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    before, late = victim.memory(), victim.count(GIVEN_UP, "late")
    victim.forget_peak()
    began_s = time.monotonic()
    heads = [stack.enter_context(victim.connect(http=True)) for _ in range(2_000)]
    for connection in heads:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nx-slow: ")
    # And one that says nothing at all, one that begins HTTP/2 and stops.
    for raw in (b"", b"PRI * HTTP/2.0\r\n"):
        silent = stack.enter_context(victim.connect(timeout_s=30))
        silent.sendall(raw)
        heads.append(silent)
    victim.still_serves()
    for connection in heads:
        connection.settimeout(3 * http1.HEAD_S)
        answer = connection.recv(100)
        assert answer.startswith((b"HTTP/1.1 408 ", b"\0\0")) or answer == b""
        while answer:
            answer = connection.recv(1 << 16)
    assert http1.HEAD_S - 6 < time.monotonic() - began_s < 3 * http1.HEAD_S
    assert victim.count(GIVEN_UP, "late") == late + 2_002
    assert victim.peak() - before < 64 * MIB
    measured("2,000 half heads", before, victim)


@pytest.fixture
def few_files(tmp_path: Path) -> Iterator[Victim]:
    """A server that may have 400 files open."""
    served = Served(
        tmp_path / "data", tmp_path / "server.log", launcher=["prlimit", "--nofile=400:400"]
    )
    try:
        served.start()
        yield Victim(served)
    finally:
        served.close()


@pytest.mark.parametrize("begin", [b"", b"GET / HTTP/1.1\r\n", "preface"], ids=str)
def test_more_connections_than_files(few_files: Victim, stack: ExitStack, begin: object) -> None:
    """420 connections that say nothing, or something and no more: others still come in."""
    raw = START + frame(HEADERS, END_HEADERS, 1, CALL) if begin == "preface" else begin
    assert isinstance(raw, bytes)
    for number in range(420):
        connection = stack.enter_context(few_files.connect(http=number % 2 == 0 and not raw))
        try:
            connection.sendall(raw)
        except OSError:
            continue
    for _ in range(3):
        assert healthy(few_files.served.endpoint)
        assert healthy(few_files.served.http)
        few_files.still_serves()
    turned_away = few_files.count("fanlog_connections_turned_away_total")
    assert turned_away + few_files.count("fanlog_connections_sent_away_total") > 0
    assert "Too many open files" not in few_files.served.log_path.read_text()


def test_confirmations_that_are_never_read(victim: Victim, stack: ExitStack) -> None:
    """An exactly-once stream acknowledges, and takes no answer: 1 GiB of them is not taken."""
    topic, name = "projects/p/topics/orders", "projects/p/subscriptions/once"
    victim.call("Publisher/CreateTopic", types.Topic(name=topic).SerializeToString())
    once = types.Subscription(name=name, topic=topic, enable_exactly_once_delivery=True)
    victim.call("Subscriber/CreateSubscription", once.SerializeToString())
    before = victim.memory()
    victim.forget_peak()
    upload = Upload(
        stack.enter_context(victim.connect()), b"/google.pubsub.v1.Subscriber/StreamingPull"
    )
    first = types.StreamingPullRequest(subscription=name, stream_ack_deadline_seconds=60)
    acks = types.StreamingPullRequest(ack_ids=["x" * 500] * 1_000)
    for request in (first, *[acks] * 2_000):
        raw = request.SerializeToString()
        if not upload.send(b"\0" + struct.pack(">I", len(raw)) + raw):
            break
    assert upload.sent_bytes < 4 * limits.SETTLING_BYTES_MAX
    assert victim.peak() - before < 64 * MIB
    victim.still_serves()
    measured(f"confirmations, {upload.sent_bytes // MIB} MiB taken", before, victim)
