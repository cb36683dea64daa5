"""A server of a few lines in this process, and the command line pointed at it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from concurrent import futures
from typing import Any

import grpc
import pytest
from google.protobuf import empty_pb2

from commands import invoke
from fanlog.model import names
from fanlog.v1 import replay_pb2
from fanlog.wire import types


class FakeServer:
    """Keeps what it is told and remembers every request. Knows no delivery rules at all."""

    def __init__(self) -> None:
        self.requests: list[Any] = []
        self.topics: dict[str, Any] = {}
        self.subscriptions: dict[str, Any] = {}
        #: What each Pull answers, in turn; empty when there is no more.
        self.answers: list[list[Any]] = []
        #: (status, details) that every call is refused with.
        self.refusal: tuple[grpc.StatusCode, str] | None = None
        #: What is said about every call that goes well, a line each.
        self.hint = ""
        self.endpoint = ""
        #: The answer to a seek.
        self.moved = replay_pb2.SeekSubscriptionResponse()

    def last(self, kind: Any) -> Any:
        return [request for request in self.requests if isinstance(request, kind)][-1]

    def verbs(self) -> dict[str, tuple[Any, Callable[[Any, Any], Any]]]:
        return {
            "Publisher/CreateTopic": (types.Topic, self._create_topic),
            "Publisher/GetTopic": (
                types.GetTopicRequest,
                lambda request, context: self._find(self.topics, request.topic, context),
            ),
            "Publisher/UpdateTopic": (
                types.UpdateTopicRequest,
                lambda request, context: request.topic,
            ),
            "Publisher/DeleteTopic": (types.DeleteTopicRequest, self._delete_topic),
            "Publisher/ListTopics": (types.ListTopicsRequest, self._list_topics),
            "Publisher/ListTopicSubscriptions": (
                types.ListTopicSubscriptionsRequest,
                lambda request, context: types.ListTopicSubscriptionsResponse(
                    subscriptions=[
                        name
                        for name, sub in self.subscriptions.items()
                        if sub.topic == request.topic
                    ]
                ),
            ),
            "Publisher/Publish": (types.PublishRequest, self._publish),
            "Subscriber/CreateSubscription": (types.Subscription, self._create_subscription),
            "Subscriber/GetSubscription": (
                types.GetSubscriptionRequest,
                lambda request, context: self._find(
                    self.subscriptions, request.subscription, context
                ),
            ),
            "Subscriber/UpdateSubscription": (
                types.UpdateSubscriptionRequest,
                lambda request, context: request.subscription,
            ),
            "Subscriber/DeleteSubscription": (
                types.DeleteSubscriptionRequest,
                lambda request, context: empty_pb2.Empty(),
            ),
            "Subscriber/ListSubscriptions": (
                types.ListSubscriptionsRequest,
                lambda request, context: types.ListSubscriptionsResponse(
                    subscriptions=self.subscriptions.values()
                ),
            ),
            "fanlog.v1.Replay/Seek": (
                replay_pb2.SeekSubscriptionRequest,
                lambda request, context: self.moved,
            ),
            "Subscriber/Pull": (
                types.PullRequest,
                lambda request, context: types.PullResponse(
                    received_messages=self.answers.pop(0) if self.answers else []
                ),
            ),
            "Subscriber/Acknowledge": (
                types.AcknowledgeRequest,
                lambda request, context: empty_pb2.Empty(),
            ),
        }

    def handled(self, verb: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
        def handle(request: Any, context: Any) -> Any:
            self.requests.append(request)
            if self.refusal is not None:
                context.abort(*self.refusal)
            said = [("fanlog-hint", hint) for hint in self.hint.splitlines()]
            context.set_trailing_metadata(tuple(said))
            return verb(request, context)

        return handle

    def _find(self, where: dict[str, Any], name: str, context: Any) -> Any:
        if name not in where:
            context.abort(grpc.StatusCode.NOT_FOUND, f"{name} does not exist")
        return where[name]

    def _create_topic(self, request: Any, context: Any) -> Any:
        if request.name in self.topics:
            context.abort(grpc.StatusCode.ALREADY_EXISTS, f"{request.name} exists already")
        self.topics[request.name] = request
        return request

    def _delete_topic(self, request: Any, context: Any) -> Any:
        self._find(self.topics, request.topic, context)
        del self.topics[request.topic]
        return empty_pb2.Empty()

    def _list_topics(self, request: Any, context: Any) -> Any:
        # Pages of two, so that paging is seen to work.
        names = sorted(name for name in self.topics if name.startswith(request.project + "/"))
        start = int(request.page_token or 0)
        reply = types.ListTopicsResponse(topics=[self.topics[n] for n in names[start : start + 2]])
        if start + 2 < len(names):
            reply.next_page_token = str(start + 2)
        return reply

    def _create_subscription(self, request: Any, context: Any) -> Any:
        if not names.is_pattern(request.topic):
            self._find(self.topics, request.topic, context)
        self.subscriptions[request.name] = request
        return request

    def _publish(self, request: Any, context: Any) -> Any:
        self._find(self.topics, request.topic, context)
        return types.PublishResponse(message_ids=map(str, range(len(request.messages))))


@pytest.fixture
def server() -> Iterator[FakeServer]:
    fake = FakeServer()
    handlers: dict[str, dict[str, Any]] = {}
    for path, (request_type, verb) in fake.verbs().items():
        service, method = path.split("/")
        handlers.setdefault(service, {})[method] = grpc.unary_unary_rpc_method_handler(
            fake.handled(verb),
            request_deserializer=request_type.FromString,
            response_serializer=lambda reply: reply.SerializeToString(),
        )
    with futures.ThreadPoolExecutor(max_workers=2) as pool:
        grpc_server = grpc.server(pool)
        grpc_server.add_generic_rpc_handlers(
            tuple(
                grpc.method_handlers_generic_handler(
                    service if "." in service else f"google.pubsub.v1.{service}", methods
                )
                for service, methods in handlers.items()
            )
        )
        fake.endpoint = f"127.0.0.1:{grpc_server.add_insecure_port('127.0.0.1:0')}"
        grpc_server.start()
        yield fake
        grpc_server.stop(None).wait()


class Shell:
    """Runs commands against the fake server."""

    def __init__(self, environ: dict[str, str | None]) -> None:
        self.environ = environ
        self.stderr = ""

    def run(self, *args: str, stdin: bytes = b"", exit_code: int = 0) -> str:
        result = invoke(args, input=stdin, env=self.environ)
        assert result.exit_code == exit_code, (result.output, result.exception)
        assert result.exception is None or isinstance(result.exception, SystemExit)
        self.stderr = result.stderr
        return result.stdout

    def lines(self, *args: str, stdin: bytes = b"") -> list[Any]:
        """Run with --json and read the lines back."""
        output = self.run(*args, "--json", stdin=stdin)
        return [json.loads(line) for line in output.splitlines()]

    def refusal(self, *args: str) -> str:
        """Run something that must fail with one sentence, and give the sentence."""
        assert self.run(*args, exit_code=1) == ""
        assert self.stderr.startswith("fanlog: ")
        assert self.stderr.count("\n") == 1
        return self.stderr


@pytest.fixture
def shell(server: FakeServer) -> Shell:
    return Shell({"PUBSUB_EMULATOR_HOST": server.endpoint, "FANLOG_PROJECT": None})


@pytest.fixture
def new_shell() -> type[Shell]:
    """For tests that have a server of their own."""
    return Shell
