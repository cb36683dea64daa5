"""A subscriber service of a test: it sends what it is told to, and refuses some leases."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import google.pubsub_v1 as gapic
import grpc
from google.protobuf.any_pb2 import Any as Packed
from google.protobuf.empty_pb2 import Empty
from google.rpc import code_pb2, error_details_pb2, status_pb2
from grpc_status import rpc_status

SERVICE = "google.pubsub.v1.Subscriber"
INVALID = "PERMANENT_FAILURE_INVALID_ACK_ID"


class SubscriberService:
    """Sends messages of one key to its first stream; ack ids are message ids.

    Args:
        answers: Message ids of each answer.
        refused: Ack ids that name no lease when their receipt comes.
    """

    def __init__(self, answers: Sequence[Sequence[int]], refused: Collection[str] = ()) -> None:
        self._answers = answers
        self._refused = frozenset(refused)
        self._is_closing = threading.Event()
        self._server = grpc.server(ThreadPoolExecutor(8))
        methods = {
            "StreamingPull": grpc.stream_stream_rpc_method_handler(
                self._streaming_pull,
                gapic.StreamingPullRequest.deserialize,
                gapic.StreamingPullResponse.serialize,
            ),
            "ModifyAckDeadline": grpc.unary_unary_rpc_method_handler(
                self._modify_ack_deadline,
                gapic.ModifyAckDeadlineRequest.deserialize,
                Empty.SerializeToString,
            ),
            "Acknowledge": grpc.unary_unary_rpc_method_handler(
                lambda request, context: Empty(),
                gapic.AcknowledgeRequest.deserialize,
                Empty.SerializeToString,
            ),
        }
        handler = grpc.method_handlers_generic_handler(SERVICE, methods)
        self._server.add_generic_rpc_handlers((handler,))
        self.endpoint = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"
        self._server.start()

    def close(self) -> None:
        self._is_closing.set()
        self._server.stop(0).wait()

    def _streaming_pull(self, requests: Any, context: Any) -> Iterator[gapic.StreamingPullResponse]:
        answers, self._answers = self._answers, ()
        for numbers in answers:
            yield gapic.StreamingPullResponse(
                received_messages=[
                    {
                        "ack_id": str(number),
                        "message": {
                            "message_id": str(number),
                            "data": b"data of %d" % number,
                            "ordering_key": "k",
                        },
                    }
                    for number in numbers
                ],
                subscription_properties={
                    "exactly_once_delivery_enabled": True,
                    "message_ordering_enabled": True,
                },
            )
        self._is_closing.wait()

    def _modify_ack_deadline(self, request: gapic.ModifyAckDeadlineRequest, context: Any) -> Empty:
        refused = self._refused.intersection(request.ack_ids)
        if refused:
            info = error_details_pb2.ErrorInfo(metadata=dict.fromkeys(refused, INVALID))
            detail = Packed()
            detail.Pack(info)
            status = status_pb2.Status(
                code=code_pb2.FAILED_PRECONDITION, message="refused", details=[detail]
            )
            context.abort_with_status(rpc_status.to_status(status))
        return Empty()
