"""Real servers in this process, and the official clients that talk to them.

All servers of a run live on one loop in a background thread; tests stay on the main thread and
speak gRPC, as any other program would. `server` and `still_server` are shared by a module and come
once for each engine: make what a test needs with `server.topic()` and `server.subscription(...)`,
whose names are unique. `start_server` gives a test a server of its own, to restart or to break.
"""

from __future__ import annotations

import asyncio
import queue
import threading
import time
import urllib.request
import warnings
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import replace
from ipaddress import ip_network
from pathlib import Path
from typing import Any, TypeVar

import google.pubsub_v1 as gapic
import grpc
import pytest
import uvloop
from google.api_core.exceptions import GoogleAPICallError
from google.cloud import pubsub_v1
from google.pubsub_v1.services.publisher.transports import PublisherGrpcTransport
from google.pubsub_v1.services.subscriber.transports import SubscriberGrpcTransport

from fanlog.broker.broker import Broker
from fanlog.broker.clock import ManualClock
from fanlog.config import Config
from fanlog.log.api import Commit
from fanlog.log.embedded import EmbeddedLog
from fanlog.log.memory import MemoryLog
from fanlog.push.service import PushService
from fanlog.server import app
from fanlog.server import engine as engine_module
from server.unique import unique

T = TypeVar("T")

PROJECT = "test"
#: Longest anything may take on a busy machine; nothing waits this long when all is well.
PATIENCE_S = 45.0


class LoopThread:
    """One event loop in a thread of its own."""

    def __init__(self) -> None:
        self._loop = uvloop.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="servers", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    def run(self, work: Awaitable[T]) -> T:
        """Run a coroutine on the loop; wait for its result."""

        async def awaited() -> T:
            async with asyncio.timeout(PATIENCE_S):
                return await work

        return asyncio.run_coroutine_threadsafe(awaited(), self._loop).result()

    def call(self, function: Callable[..., T], *args: Any) -> T:
        """Call a function on the loop's thread; wait for its result."""

        async def called() -> T:
            return function(*args)

        return self.run(called())

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE_S)
        self._loop.close()


class _Breakable:
    """A log that fails when told to, before anything is written, and notes what it commits."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        #: Raised by the next commits, one each.
        self.failures: list[Exception] = []
        self.commits: list[Commit] = []

    def commit(self, commit: Commit) -> None:
        if self.failures:
            raise self.failures.pop(0)
        self.commits.append(commit)
        super().commit(commit)  # type: ignore[misc]


class BreakableMemoryLog(_Breakable, MemoryLog):
    pass


class BreakableEmbeddedLog(_Breakable, EmbeddedLog):
    pass


class Stream:
    """A StreamingPull, request by request; answers are gathered as they come."""

    def __init__(
        self, subscriber: Any, first: dict[str, Any], metadata: Iterable[tuple[str, str]] = ()
    ) -> None:
        self._requests: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.send(**first)
        self._call = subscriber.streaming_pull(
            iter(self._requests.get, None), retry=None, metadata=tuple(metadata)
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        try:
            for answer in self._call:
                self._answers.put(answer)
            self._answers.put(None)
        except (GoogleAPICallError, ValueError) as error:
            # A ValueError when both sides end it: its own status is not that of the details.
            self._answers.put(error)

    def send(self, **fields: Any) -> None:
        self._requests.put(gapic.StreamingPullRequest(**fields))

    def answer(self, timeout_s: float = PATIENCE_S) -> Any:
        """The next answer; raises the stream's error when it has ended with one."""
        answer = self._answers.get(timeout=timeout_s)
        if answer is None:
            raise EOFError
        if isinstance(answer, Exception):
            raise answer
        return answer

    def messages(self, count: int) -> list[Any]:
        """The next `count` messages, over as many answers as they come in."""
        found: list[Any] = []
        while len(found) < count:
            found += self.answer().received_messages
        assert len(found) == count
        return found

    def messages_now(self) -> list[Any]:
        """The messages of the next answer that has some, and of those that came with it."""
        found: list[Any] = []
        while not found:
            found += self.answer().received_messages
        return found + self.pending()

    def confirmation(self, kind: str) -> Any:
        """The next `acknowledge_confirmation` or `modify_ack_deadline_confirmation`."""
        while kind not in (answer := self.answer()):
            pass
        return getattr(answer, kind)

    def pending(self) -> list[Any]:
        """Messages that came since anybody looked."""
        found: list[Any] = []
        while not self._answers.empty():
            found += self.answer().received_messages
        return found

    def error(self) -> GoogleAPICallError:
        """What the stream ends with; answers before that are passed over."""
        while True:
            try:
                self.answer()
            except GoogleAPICallError as error:
                return error

    def half_close(self) -> None:
        self._requests.put(None)

    def wait_closed(self) -> None:
        """Wait until the server has ended the stream well."""
        with suppress(EOFError):
            while True:
                self.answer()

    def end(self) -> None:
        """The server is gone: its last word, which may still be on its way, ends the stream."""
        self._reader.join(PATIENCE_S)
        self.close()

    def close(self) -> None:
        """Go away, as a client that was killed does."""
        self._call.cancel()
        self._requests.put(None)
        self._reader.join(PATIENCE_S)


class RunningServer:
    """A server, the clients of it, and short words for what tests do all the time.

    `publisher` and `subscriber` are Google's clients at the level of requests; `publishing()` and
    `subscribing()` make those with batching, callbacks and flow control.
    """

    def __init__(self, loop: LoopThread, config: Config, clock: ManualClock | None) -> None:
        self._loop = loop
        self._config = config
        self.clock = clock
        self._running: AbstractAsyncContextManager[app.Server] | None = None
        self._streams: list[Stream] = []
        self._clients: list[Any] = []
        self.start()

    # Life.

    def start(self) -> None:
        running = app.running(self._config, clock=self.clock)
        self._server = self._loop.run(running.__aenter__())
        self._running = running
        self._channel = self.channel()
        self.publisher = gapic.PublisherClient(
            transport=PublisherGrpcTransport(channel=self._channel)
        )
        self.subscriber = gapic.SubscriberClient(
            transport=SubscriberGrpcTransport(channel=self._channel)
        )

    def stop(self) -> None:
        if self._running is None:
            return
        for client in self._clients:
            client.close()
        self._clients = []
        self._stop_serving()

    def _stop_serving(self) -> None:
        assert self._running is not None
        running, self._running = self._running, None
        self._loop.run(running.__aexit__(None, None, None))
        for stream in self._streams:
            stream.end()
        self._streams = []
        self._channel.close()

    def restart(self, **settings: Any) -> None:
        """Stop and start on the same data and port; clients with callbacks live through it."""
        assert not self._config.memory
        self._stop_serving()
        self._config = replace(self._config, port=self._server.port, **settings)
        self.start()

    @property
    def endpoint(self) -> str:
        return self._server.endpoint

    @property
    def broker(self) -> Broker:
        return self._server.broker

    @property
    def senders(self) -> PushService:
        return self._server.senders

    @property
    def store(self) -> Any:
        return self._server.store

    def channel(self) -> grpc.Channel:
        """A channel that takes answers of any size, as official clients outside emulator mode."""
        options = [
            ("grpc.max_receive_message_length", -1),
            # Otherwise one that waits before it connects again would make the others wait too.
            ("grpc.use_local_subchannel_pool", 1),
        ]
        return grpc.insecure_channel(self.endpoint, options=options)

    def advance(self, seconds: float) -> None:
        """Let time pass on a server whose clock stands still."""
        assert self.clock is not None
        self._loop.call(self.clock.advance, seconds)

    def drain_broker(self) -> None:
        """What stopping does first: consumers are sent away, while the port still answers."""
        self._loop.call(self.broker.drain)

    def await_lake(self) -> None:
        """Wait until the lake was looked at for the first time."""

        async def looked_at() -> None:
            await self.broker.tiers._checking  # type: ignore[attr-defined]

        self.run(looked_at())

    def sweep(self) -> None:
        """Let retention do its work now."""
        self._loop.run(self.broker.sweep())

    def run(self, work: Awaitable[T]) -> T:
        """Run a coroutine of the broker on its loop."""
        return self._loop.run(work)

    def metrics(self) -> str:
        """The page that Prometheus reads."""
        with urllib.request.urlopen(self.http("/metrics"), timeout=PATIENCE_S) as response:
            return str(response.read().decode())

    def http(self, path: str) -> str:
        """The address of a page of the HTTP port."""
        return f"http://{self._server.http_endpoint}{path}"

    def metric(self, name: str, subscription: str | None = None) -> float:
        """One number of that page, of a subscription if it is one of many."""
        labels = "" if subscription is None else f'{{subscription="{subscription}"}}'
        start = f"{name}{labels} "
        [found] = [line for line in self.metrics().splitlines() if line.startswith(start)]
        return float(found.removeprefix(start))

    def await_metric(self, name: str, subscription: str | None, value: float) -> None:
        """Wait until a number of that page is what is expected."""
        late_s = time.monotonic() + PATIENCE_S
        while (found := self.metric(name, subscription)) != value:
            assert time.monotonic() < late_s, f"{name} is {found}"

    # Clients.

    def publishing(self, **options: Any) -> pubsub_v1.PublisherClient:
        """The official publisher, with batching and futures."""
        transport = PublisherGrpcTransport(channel=self.channel())
        return pubsub_v1.PublisherClient(transport=transport, **options)

    def subscribing(self) -> pubsub_v1.SubscriberClient:
        """The official subscriber, with callbacks; closed when the server stops."""
        transport = SubscriberGrpcTransport(channel=self.channel())
        client = pubsub_v1.SubscriberClient(transport=transport)
        self._clients.append(client)
        return client

    def open_stream(
        self, subscription: str, *, metadata: Iterable[tuple[str, str]] = (), **fields: Any
    ) -> Stream:
        """A StreamingPull; its first request has a stream deadline of 10 s unless told."""
        first = {"subscription": subscription, "stream_ack_deadline_seconds": 10} | fields
        stream = Stream(self.subscriber, first, metadata)
        self._streams.append(stream)
        return stream

    def raw(self, method: str) -> Callable[[bytes], bytes]:
        """A unary call by bytes, such as `raw("Publisher/Publish")`; errors are grpc.RpcError."""
        call: Any = self._channel.unary_unary(f"/google.pubsub.v1.{method}")
        return lambda request: call(request, timeout=PATIENCE_S)

    def raw_stream(self, requests: Iterable[bytes]) -> Iterator[bytes]:
        """A StreamingPull by bytes; errors are grpc.RpcError."""
        call: Any = self._channel.stream_stream("/google.pubsub.v1.Subscriber/StreamingPull")
        answers: Iterator[bytes] = call(iter(requests), timeout=PATIENCE_S)
        return answers

    # Words.

    def topic(self, **fields: Any) -> str:
        """Make a topic; its name."""
        name = f"projects/{PROJECT}/topics/{unique('topic')}"
        fields = {"name": name} | fields
        return str(self.publisher.create_topic(request=fields).name)

    def subscription(self, topic: str, **fields: Any) -> str:
        """Make a subscription; its name."""
        name = f"projects/{PROJECT}/subscriptions/{unique('sub')}"
        fields = {"name": name, "topic": topic} | fields
        return str(self.subscriber.create_subscription(request=fields).name)

    def topic_and_subscription(self, **fields: Any) -> tuple[str, str]:
        topic = self.topic()
        return topic, self.subscription(topic, **fields)

    def publish(self, topic: str, *data: bytes, key: str = "", **attributes: str) -> list[str]:
        """Publish in one request; the message ids."""
        messages = [{"data": d, "ordering_key": key, "attributes": attributes} for d in data]
        request = {"topic": topic, "messages": messages}
        return list(self.publisher.publish(request=request, retry=None).message_ids)

    def pull(self, subscription: str, max_messages: int = 1000, **fields: Any) -> list[Any]:
        """What is there now, in one answer."""
        request = {"subscription": subscription, "max_messages": max_messages}
        request |= {"return_immediately": True} | fields
        with warnings.catch_warnings():
            # The client calls this field deprecated; it is the only way to ask what is there now.
            warnings.simplefilter("ignore", DeprecationWarning)
            return list(self.subscriber.pull(request=request, retry=None).received_messages)

    def await_pull(
        self, subscription: str, max_messages: int = 1000, timeout_s: float | None = PATIENCE_S
    ) -> list[Any]:
        """What is there; wait for the first message."""
        request = {"subscription": subscription, "max_messages": max_messages}
        answer = self.subscriber.pull(request=request, retry=None, timeout=timeout_s)
        return list(answer.received_messages)

    def await_waiters(self, subscription: str, count: int) -> None:
        """Wait until so many pulls and streams wait for messages of the subscription."""

        async def waited() -> None:
            found, feed = self.broker.attach(subscription)
            while feed.waiting < count:
                await asyncio.sleep(0.001)
            self.broker.detach(found, feed)

        self._loop.run(waited())

    def outstanding(self, subscription: str, waiters: int = 1) -> int:
        """Messages that somebody holds, once so many consumers have found nothing more to get."""
        self.await_waiters(subscription, waiters)
        found = self.broker.hard.catalog.subscription(subscription)
        return self._loop.run(self.broker.backlogs.measure(found)).outstanding

    def await_outstanding(self, subscription: str, count: int) -> None:
        """Wait until so many messages are held by somebody."""

        async def held() -> None:
            found = self.broker.hard.catalog.subscription(subscription)
            while (await self.broker.backlogs.measure(found)).outstanding != count:
                await asyncio.sleep(0.001)

        self._loop.run(held())

    def await_submitted(self, topic: str, count: int) -> None:
        """Wait until so many messages of a topic are committed or wait for their commit."""

        async def submitted() -> None:
            [partition] = self.broker.hard.catalog.topic(topic).partitions
            while self.broker.ledger.assigned_end(partition) < count:
                await asyncio.sleep(0.001)

        self._loop.run(submitted())

    def await_that(self, is_so: Callable[[], bool]) -> None:
        """Wait until something is so, as the loop sees it."""

        async def waited() -> None:
            while not is_so():
                await asyncio.sleep(0.001)

        self._loop.run(waited())

    def await_drained(self, subscription: str) -> None:
        """Wait until everything published to the subscription is acknowledged."""

        async def drained() -> None:
            found = self.broker.hard.catalog.subscription(subscription)
            while (await self.broker.backlogs.measure(found)).messages:
                await asyncio.sleep(0.005)
            # The backlog counts an ack when it is taken; the next commit is not to be its commit.
            await self.broker.ledger.sync()

        self._loop.run(drained())

    def drain(self, subscription: str, count: int) -> list[Any]:
        """Pull and acknowledge until `count` messages have come."""
        found: list[Any] = []
        while len(found) < count:
            some = self.await_pull(subscription)
            assert some, f"only {len(found)} of {count} messages came"
            self.ack(subscription, some)
            found += some
        assert len(found) == count
        return found

    def ack(self, subscription: str, received: Iterable[Any]) -> None:
        request = {"subscription": subscription, "ack_ids": [one.ack_id for one in received]}
        self.subscriber.acknowledge(request=request, retry=None)

    def modify(self, subscription: str, received: Iterable[Any], seconds: int) -> None:
        """Change deadlines; zero is a nack."""
        request = {
            "subscription": subscription,
            "ack_ids": [one.ack_id for one in received],
            "ack_deadline_seconds": seconds,
        }
        self.subscriber.modify_ack_deadline(request=request, retry=None)

    def nack(self, subscription: str, received: Iterable[Any]) -> None:
        self.modify(subscription, received, 0)


StartServer = Callable[..., RunningServer]


@pytest.fixture(scope="session")
def loop_thread() -> Iterator[LoopThread]:
    loop = LoopThread()
    yield loop
    loop.close()


def _config(engine: str, data_dir: Path) -> Config:
    choice: dict[str, Any] = {"memory": True} if engine == "memory" else {"data_dir": data_dir}
    # Endpoints of tests are on this machine, which push may otherwise not reach.
    allow = (ip_network("127.0.0.0/8"),)
    return Config(
        port=0, http_port=0, drain_s=2.0, disk_reserve_bytes=0, push_allow=allow, **choice
    )


@pytest.fixture(scope="module", params=["memory", "embedded"])
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def _settings(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Settings that a module's servers have beside the defaults: its `SETTINGS`."""
    return dict(getattr(request.module, "SETTINGS", {}))


@pytest.fixture(scope="module")
def server(
    request: pytest.FixtureRequest,
    engine: str,
    loop_thread: LoopThread,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[RunningServer]:
    """A server on the machine's clock, shared by the module; one for each engine."""
    config = replace(_config(engine, tmp_path_factory.mktemp("data")), **_settings(request))
    running = RunningServer(loop_thread, config, None)
    yield running
    running.stop()


@pytest.fixture(scope="module")
def still_server(
    request: pytest.FixtureRequest,
    engine: str,
    loop_thread: LoopThread,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[RunningServer]:
    """A server whose clock stands still until `advance`; shared by the module."""
    config = replace(_config(engine, tmp_path_factory.mktemp("data")), **_settings(request))
    running = RunningServer(loop_thread, config, ManualClock())
    yield running
    running.stop()


@pytest.fixture(scope="module")
def lean_server(
    engine: str, loop_thread: LoopThread, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningServer]:
    """As `still_server`, but topics keep nothing by themselves: what nobody needs is trimmed."""
    config = replace(_config(engine, tmp_path_factory.mktemp("data")), topic_retention=0.0)
    running = RunningServer(loop_thread, config, ManualClock())
    yield running
    running.stop()


@pytest.fixture
def start_server(
    request: pytest.FixtureRequest,
    loop_thread: LoopThread,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[StartServer]:
    """Start servers of the test's own: `start_server(engine="embedded", clock=None, **settings)`.

    Their `store` fails commits when told to.
    """
    monkeypatch.setattr(engine_module, "MemoryLog", BreakableMemoryLog)
    monkeypatch.setattr(engine_module, "EmbeddedLog", BreakableEmbeddedLog)
    started: list[RunningServer] = []

    def start(
        engine: str = "embedded", clock: ManualClock | None = None, **settings: Any
    ) -> RunningServer:
        config = _config(engine, tmp_path / f"data-{len(started)}")
        config = replace(config, **_settings(request) | settings)
        started.append(RunningServer(loop_thread, config, clock))
        return started[-1]

    yield start
    for running in started:
        running.stop()


@pytest.fixture
def tiered(start_server: StartServer, tmp_path: Path) -> Any:
    """A server with a lake, and an archive of its log, on a clock that the test moves."""
    from server.tiered import Tiered

    lake = tmp_path / "lake"
    return Tiered(start_server(clock=ManualClock(), lake=str(lake)), lake)
