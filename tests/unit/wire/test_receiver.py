"""Calls of `fanlog.v1.Receiver`: bytes that any client reads, answers of any kind."""

from __future__ import annotations

import pytest
from google.protobuf.any_pb2 import Any
from google.rpc import error_details_pb2, status_pb2

from fanlog import limits
from fanlog.errors import InvalidArgument
from fanlog.v1.receiver_pb2 import ReceiveRequest, ReceiveResponse
from fanlog.v1.receiver_pb2 import Refusal as RefusalPb
from fanlog.wire.receiver import Refusal, receive_request, refusals, retry_info_s


def answer(**fields):
    return ReceiveResponse(refusals=[RefusalPb(ack_id="a", **fields)]).SerializeToString()


def test_a_request_without_messages_names_its_subscription():
    name = "projects/p/subscriptions/" + "s" * 200
    assert ReceiveRequest.FromString(receive_request([], name)) == ReceiveRequest(subscription=name)


def test_nothing_refused():
    assert refusals(b"", ["a", "b"]) == {}


@pytest.mark.parametrize(
    ("given_s", "delay_s"),
    [
        (0, None), (-1, None), (float("nan"), None), (0.5, 0.5),
        (float("inf"), limits.NACK_DELAY_S_MAX), (1e9, limits.NACK_DELAY_S_MAX),
    ],
)  # fmt: skip
def test_delays(given_s, delay_s):
    [found] = refusals(answer(delay_seconds=given_s), ["a"]).values()
    assert found == Refusal("", delay_s, is_terminal=False)


def test_reasons_are_cut_between_characters():
    [found] = refusals(answer(reason="ä" * 1000, terminal=True), ["a"]).values()
    assert found == Refusal("ä" * (limits.NACK_REASON_BYTES_MAX // 2), None, is_terminal=True)


@pytest.mark.parametrize("raw", [b"\xff", answer(), b"\x0a\x05"])
def test_what_nobody_understands_is_refused(raw):
    with pytest.raises(InvalidArgument, match="the answer"):
        refusals(raw, ["b"])


def test_retry_info():
    detail, other = Any(), Any()
    info = error_details_pb2.RetryInfo()
    info.retry_delay.FromMilliseconds(1500)
    detail.Pack(info)
    other.Pack(error_details_pb2.ErrorInfo(reason="X"))
    status = status_pb2.Status(code=14, details=[other, detail])
    assert retry_info_s(status.SerializeToString()) == 1.5
    assert retry_info_s(status_pb2.Status(code=14).SerializeToString()) is None
    assert retry_info_s(b"\xff\xff") is None
