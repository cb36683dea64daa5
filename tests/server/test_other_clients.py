"""What the Go, Java and Node clients expect of the protocol and the Python one does not.

Each was found by running the real client; here it is one exchange of plain gRPC.
"""

from __future__ import annotations

import grpc
import pytest
from google.rpc.error_details_pb2 import ErrorInfo
from grpc_status import rpc_status

from fanlog.wire import types
from server.conftest import PATIENCE_S

INVALID = "PERMANENT_FAILURE_INVALID_ACK_ID"


class TestPings:
    """Java and Go give a stream up that leaves their empty requests unanswered."""

    def test_an_empty_request_is_answered(self, server):
        _, subscription = server.topic_and_subscription()
        stream = server.open_stream(subscription, protocol_version=1)
        for _ in range(3):
            stream.send()
            answer = stream.answer()
            assert not answer.received_messages
            assert "subscription_properties" not in answer

    def test_the_answer_says_what_the_subscription_is_like(self, server):
        _, subscription = server.topic_and_subscription(enable_exactly_once_delivery=True)
        stream = server.open_stream(subscription, protocol_version=1)
        assert stream.answer().subscription_properties.exactly_once_delivery_enabled
        stream.send()
        assert stream.answer().subscription_properties.exactly_once_delivery_enabled

    def test_a_new_stream_deadline_alone_is_a_ping_too(self, server):
        _, subscription = server.topic_and_subscription()
        stream = server.open_stream(subscription, protocol_version=1)
        stream.send(stream_ack_deadline_seconds=60)
        assert not stream.answer().received_messages

    def test_clients_that_do_not_ask_for_answers_get_none(self, server):
        topic, subscription = server.topic_and_subscription()
        stream = server.open_stream(subscription)
        stream.send()
        server.publish(topic, b"x")
        assert stream.answer().received_messages

    def test_acks_are_no_pings(self, server):
        topic, subscription = server.topic_and_subscription()
        stream = server.open_stream(subscription, protocol_version=1)
        server.publish(topic, b"x")
        [received] = stream.messages(1)
        stream.send(ack_ids=[received.ack_id])
        server.await_drained(subscription)
        server.publish(topic, b"y")
        assert stream.answer().received_messages

    def test_the_version_is_said_once(self, server):
        _, subscription = server.topic_and_subscription()
        stream = server.open_stream(subscription, protocol_version=1)
        stream.send(protocol_version=1)
        assert stream.error().grpc_status_code is grpc.StatusCode.INVALID_ARGUMENT


class TestManyAcksAtOnce:
    """Exactly-once: one stale id among more than an answer has room to name.

    Of an id that is not named, Java's client thinks that it was acknowledged; the others think
    what the status says.
    """

    COUNT = 500

    @pytest.fixture
    def acknowledge(self, still_server):
        """Acknowledge with unary calls of a client that says it is `library`."""
        channels = []

        def called(library, subscription, ack_ids):
            options = [("grpc.primary_user_agent", library)]
            channels.append(grpc.insecure_channel(still_server.endpoint, options=options))
            call = channels[-1].unary_unary("/google.pubsub.v1.Subscriber/Acknowledge")
            request = types.AcknowledgeRequest(subscription=subscription, ack_ids=ack_ids)
            try:
                call(request.SerializeToString(), timeout=PATIENCE_S)
            except grpc.RpcError as error:
                info = ErrorInfo()
                rpc_status.from_call(error).details[0].Unpack(info)
                return error.code(), dict(info.metadata)
            return None, {}

        yield called
        for channel in channels:
            channel.close()

    def leased(self, server, subscription, topic, count):
        server.publish(topic, *[b"%d" % number for number in range(count)])
        return [one.ack_id for one in server.pull(subscription)]

    def one_stale(self, server):
        topic, subscription = server.topic_and_subscription(enable_exactly_once_delivery=True)
        [stale] = self.leased(server, subscription, topic, 1)
        server.advance(10.1)
        [anew] = [one.ack_id for one in server.pull(subscription)]
        good = self.leased(server, subscription, topic, self.COUNT)
        assert len(good) == self.COUNT
        return subscription, stale, anew, good

    def test_the_stale_one_is_named_and_the_others_are_sent_again(self, still_server, acknowledge):
        subscription, stale, anew, good = self.one_stale(still_server)
        code, named = acknowledge("grpc-go/1.83", subscription, [*good, stale])
        assert code is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert named.pop(stale) == INVALID
        assert 20 < len(named) < self.COUNT
        assert all(why.startswith("TRANSIENT_") for why in named.values())
        assert acknowledge("grpc-go/1.83", subscription, [*good, anew]) == (None, {})
        still_server.advance(10.1)
        assert still_server.pull(subscription) == []

    def test_what_java_is_not_told_of_is_done(self, still_server, acknowledge):
        subscription, stale, anew, good = self.one_stale(still_server)
        code, named = acknowledge("grpc-java-netty/1.82", subscription, [*good, stale])
        assert code is grpc.StatusCode.FAILED_PRECONDITION
        assert named == {stale: INVALID}
        still_server.advance(10.1)
        [again] = still_server.pull(subscription)
        assert again.message.data == b"0"
        assert again.ack_id != anew

    @pytest.mark.parametrize("library", ["grpc-go/1.83", "grpc-java-netty/1.82"])
    def test_all_stale(self, still_server, acknowledge, library):
        topic, subscription = still_server.topic_and_subscription(enable_exactly_once_delivery=True)
        stale = self.leased(still_server, subscription, topic, self.COUNT)
        still_server.advance(10.1)
        assert len(still_server.pull(subscription)) == self.COUNT
        code, named = acknowledge(library, subscription, stale)
        assert code is grpc.StatusCode.FAILED_PRECONDITION
        # Java would take those that are not named for acknowledged.
        assert set(named.values()) == (set() if "java" in library else {INVALID})

    def test_few_are_all_named_to_everyone(self, still_server, acknowledge):
        subscription, stale, _, good = self.one_stale(still_server)
        for library in ("grpc-go/1.83", "grpc-java-netty/1.82"):
            code, named = acknowledge(library, subscription, [*good[:10], stale])
            assert code is grpc.StatusCode.FAILED_PRECONDITION
            assert len(named) == 11
