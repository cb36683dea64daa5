"""Callers that leave before their answer are no news for the log; bugs are."""

from __future__ import annotations

from contextlib import closing

import grpc
import pytest

from fanlog.server import grpc_api
from fanlog.transport.statuses import CANCELLED, INTERNAL, CallRefused, Status
from fanlog.wire import types


def test_a_caller_that_leaves_is_not_logged(server, caplog):
    _, subscription = server.topic_and_subscription()
    request = types.PullRequest(subscription=subscription, max_messages=1).SerializeToString()
    with closing(server.channel()) as channel:
        call = channel.unary_unary("/google.pubsub.v1.Subscriber/Pull").future(request)
        call.cancel()
        with pytest.raises(grpc.FutureCancelledError):
            call.result()
    assert "action=call_failed" not in caplog.text


def test_an_own_status_is_given_as_it_is(caplog):
    status = Status(CANCELLED, "so it is")
    assert grpc_api.status_of(CallRefused(status)) is status
    assert caplog.records == []


def test_a_bug_is_logged_and_not_told(caplog):
    status = grpc_api.status_of(ValueError("a secret"))
    assert status.code == INTERNAL
    assert "secret" not in status.message
    assert "action=call_failed" in caplog.text
