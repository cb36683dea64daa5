"""Statuses: read here as the official client reads them."""

from __future__ import annotations

import inspect

import pytest
from google.rpc.error_details_pb2 import ErrorInfo

from fanlog import errors
from fanlog.wire.status import DOMAIN, code_name, rich_status

ALL = [
    error
    for _, error in inspect.getmembers(errors, inspect.isclass)
    if issubclass(error, errors.FanlogError) and error is not errors.AckIdsRefused
]


def info_of(status: object) -> ErrorInfo:
    (detail,) = status.details  # type: ignore[attr-defined]
    info = ErrorInfo()
    assert detail.Is(ErrorInfo.DESCRIPTOR)
    assert detail.Unpack(info)
    return info


@pytest.mark.parametrize("error", ALL)
def test_every_error_has_a_status(error: type[errors.FanlogError]) -> None:
    status = rich_status(error("what happened"))
    assert code_name(status) == error.grpc_status
    assert status.message == "what happened"
    info = info_of(status)
    assert (info.reason, info.domain, dict(info.metadata)) == (error.code, DOMAIN, {})


def test_refused_ack_ids_are_listed() -> None:
    failures = {
        "a": "PERMANENT_FAILURE_INVALID_ACK_ID",
        "b": "TRANSIENT_FAILURE_UNORDERED_ACK_ID",
    }
    status = rich_status(errors.AckIdsRefused("2 ack ids refused", failures))
    assert code_name(status) == "FAILED_PRECONDITION"
    assert dict(info_of(status).metadata) == failures


def test_more_ack_ids_than_trailers_hold_are_sent_again() -> None:
    failures = {f"{number:040}": "PERMANENT_FAILURE_INVALID_ACK_ID" for number in range(1_000)}
    status = rich_status(errors.AckIdsRefused("many", failures))
    assert code_name(status) == "RESOURCE_EXHAUSTED"
    listed = dict(info_of(status).metadata)
    assert 50 < len(listed) < 1_000
    assert listed.items() <= failures.items()
    assert status.ByteSize() * 4 / 3 < 7_500


def test_a_long_sentence_is_cut() -> None:
    assert len(rich_status(errors.InvalidArgument("x" * 10_000)).message) == 1_000
