"""Filters through the server, received on a stream for each subscription, all open at once."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Any

import grpc

from bench.api import StreamingPullRequest, StreamingPullResponse, message_ids
from bench.filters import MESSAGES_EACH, WORKERS, Inbox, publish_requests, subscribe
from bench.meter import Cost, Meter
from bench.servers import Server
from bench.session import STEP_S, Sample, Session, Stalled
from bench.stream import OUTSTANDING_MESSAGES

#: As many as many clients allow themselves on one connection.
STREAMS_PER_CONNECTION = 100
#: Acknowledgements that a stream gathers before it sends them.
ACKS_AT_ONCE = 50


def measure(server: Server, count: int) -> Sample:
    """Publish to open streams; the clock stops when the last message has come."""
    with Session(server) as session:
        topic = session.topic()
        names = subscribe(session, topic, max(1, count // MESSAGES_EACH))
        # One for each before the clock starts: a stream that has got it is open.
        opening = publish_requests(topic, len(names), len(names))
        requests = publish_requests(topic, count, len(names))
        streams = _Streams(names, count)
        try:
            cost, answers = asyncio.run(
                asyncio.wait_for(streams.run(session, opening, requests), STEP_S)
            )
        except TimeoutError as error:
            raise Stalled(f"not done after {STEP_S} s") from error
        for name, ack_ids in zip(names, streams.ack_ids, strict=True):
            if ack_ids:
                session.api.acknowledge(name, ack_ids)
        return Sample(
            figures={"rate": count / cost.seconds},
            messages=count,
            cost=cost,
            problems=streams.inbox.problems(session, names, message_ids(answers)),
            notes=(f"{(len(names) + count) / streams.answers:.1f} messages in an answer",),
        )


class _Streams:
    """A stream for each subscription, all read on one loop."""

    def __init__(self, names: Sequence[str], count: int) -> None:
        self._names = names
        self.inbox = Inbox(len(names) + count, len(names))
        #: Of each, what came and was not acknowledged on the stream.
        self.ack_ids: list[list[str]] = [[] for _ in names]
        #: Answers with messages in them.
        self.answers = 0
        self._came = 0
        self._is_open, self._is_done = asyncio.Event(), asyncio.Event()

    async def run(
        self, session: Session, opening: Sequence[bytes], requests: Sequence[bytes]
    ) -> tuple[Cost, list[bytes]]:
        """Open them, publish, and wait for everything; the cost is that of `requests`."""
        api, endpoint = session.api, session.server.endpoint
        async with AsyncExitStack() as channels, asyncio.TaskGroup() as readers:
            tasks = []
            for number in range(len(self._names)):
                if number % STREAMS_PER_CONNECTION == 0:
                    options = [("grpc.use_local_subchannel_pool", 1)]
                    channel = grpc.aio.insecure_channel(endpoint, options=options)
                    await channels.enter_async_context(channel)
                tasks.append(readers.create_task(self._read(channel, number)))
            answers = await asyncio.to_thread(api.in_parallel, WORKERS, api.publish, opening)
            await self._is_open.wait()
            with Meter(session.server) as meter:
                answers += await asyncio.to_thread(api.in_parallel, WORKERS, api.publish, requests)
                await self._is_done.wait()
            for task in tasks:
                task.cancel()
        return meter.cost, answers

    async def _read(self, channel: grpc.aio.Channel, number: int) -> None:
        call = channel.stream_stream(
            "/google.pubsub.v1.Subscriber/StreamingPull",
            request_serializer=StreamingPullRequest.SerializeToString,
            response_deserializer=StreamingPullResponse.FromString,
        )()
        await call.write(
            StreamingPullRequest(
                subscription=self._names[number],
                stream_ack_deadline_seconds=600,
                max_outstanding_messages=OUTSTANDING_MESSAGES,
            )
        )
        answer: Any
        while (answer := await call.read()) is not grpc.aio.EOF:
            if answer.received_messages:
                self._take(number, answer.received_messages)
            if len(self.ack_ids[number]) >= ACKS_AT_ONCE:
                ack_ids, self.ack_ids[number] = self.ack_ids[number], []
                await call.write(StreamingPullRequest(ack_ids=ack_ids))

    def _take(self, number: int, messages: Sequence[Any]) -> None:
        self.inbox.put(number, messages)
        self.ack_ids[number] += [message.ack_id for message in messages]
        self.answers += 1
        self._came += len(messages)
        if self._came >= len(self._names):
            self._is_open.set()
        if self._came >= self.inbox.count:
            self._is_done.set()
