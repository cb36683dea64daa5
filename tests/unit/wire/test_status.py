"""Statuses: read here as the official client reads them."""

from __future__ import annotations

import inspect

import pytest
from google.rpc.error_details_pb2 import ErrorInfo, RetryInfo

from fanlog import errors
from fanlog.wire.status import DOMAIN, all_fit, code_name, rich_status

ALL = [
    error
    for _, error in inspect.getmembers(errors, inspect.isclass)
    if issubclass(error, errors.FanlogError) and error is not errors.AckIdsRefused
]


def info_of(status: object) -> ErrorInfo:
    detail = status.details[0]  # type: ignore[attr-defined]
    info = ErrorInfo()
    assert detail.Is(ErrorInfo.DESCRIPTOR)
    assert detail.Unpack(info)
    return info


def _make(error: type[errors.FanlogError]) -> errors.FanlogError:
    if error is errors.RateExceeded:
        return errors.RateExceeded("what happened", 1.5)
    return error("what happened")


def test_a_rate_says_when_to_try_again() -> None:
    status = rich_status(errors.RateExceeded("too many", 1.5))
    again = RetryInfo()
    assert status.details[1].Unpack(again)
    assert again.retry_delay.ToTimedelta().total_seconds() == 1.5
    assert info_of(status).reason == "RATE_EXCEEDED"


@pytest.mark.parametrize("error", ALL)
def test_every_error_has_a_status(error: type[errors.FanlogError]) -> None:
    status = rich_status(_make(error))
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


def test_ack_ids_that_trailers_do_not_hold_are_sent_again_the_stale_ones_are_named() -> None:
    good = {f"{number:052}": "TRANSIENT_FAILURE_REQUEST_NOT_APPLIED" for number in range(1_000)}
    stale = {f"{number:052x}": "PERMANENT_FAILURE_INVALID_ACK_ID" for number in range(2_000, 2_010)}
    error = errors.AckIdsRefused("many", good | stale)
    status = rich_status(error)
    assert code_name(status) == "RESOURCE_EXHAUSTED"
    listed = dict(info_of(status).metadata)
    assert stale.items() <= listed.items() <= error.failures.items()
    assert 40 < len(listed) < 1_000
    assert status.ByteSize() * 4 / 3 < 7_500
    assert not all_fit(error)
    assert all_fit(errors.AckIdsRefused("few", stale))


def test_more_stale_ack_ids_than_trailers_hold_have_all_failed() -> None:
    stale = {f"{number:052}": "PERMANENT_FAILURE_INVALID_ACK_ID" for number in range(1_000)}
    status = rich_status(errors.AckIdsRefused("many", stale))
    assert code_name(status) == "FAILED_PRECONDITION"
    assert 40 < len(info_of(status).metadata) < 1_000


def test_a_long_sentence_is_cut() -> None:
    assert len(rich_status(errors.InvalidArgument("x" * 10_000)).message) == 1_000
