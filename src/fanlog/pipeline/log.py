"""The broker's log, as far as flows have to know it."""

from __future__ import annotations

from fanlog.client import Client
from fanlog.model import jobs
from fanlog.v1 import log_pb2


def log_of(client: Client) -> log_pb2.GetOffsetsResponse:
    """The log's id, its lake, and how far that has come.

    Raises:
        CallFailed: It was refused, or did not arrive.
    """
    # A pattern, for a topic that need not be there: what is said beside the offsets is wanted.
    selection = log_pb2.TopicSelection(pattern=jobs.TOPIC)
    request = log_pb2.GetOffsetsRequest(selection=selection)
    answer = client.call("fanlog.v1.Log/GetOffsets", request, log_pb2.GetOffsetsResponse)
    assert isinstance(answer, log_pb2.GetOffsetsResponse)
    return answer
