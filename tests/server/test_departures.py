"""Callers that go away before their answer has left: the log is not for them."""

from __future__ import annotations

import logging

import grpc
import pytest

from fanlog.server import grpc_api


class Context:
    """A call whose caller is gone, or is not."""

    def __init__(self):
        self.status = None

    async def abort_with_status(self, status):
        self.status = status
        raise grpc.aio.AbortError


@pytest.fixture
def grpc_log():
    logger = logging.getLogger(grpc_api.LOGGER)
    grpc_api.mute_departures()
    yield logger
    for one in list(logger.filters):
        logger.removeFilter(one)


def tell(logger, error):
    try:
        raise error
    except Exception:
        logger.exception("raised in core")


def test_grpc_does_not_tell_of_them(grpc_log, caplog):
    tell(grpc_log, grpc.aio.InternalError("no answer could be sent"))
    assert caplog.records == []


def test_it_tells_of_everything_else(grpc_log, caplog):
    tell(grpc_log, ValueError("a bug"))
    grpc_log.error("no exception")
    assert [record.getMessage() for record in caplog.records] == ["raised in core", "no exception"]


async def test_a_stream_that_cannot_be_written_to_is_no_failure(caplog):
    context = Context()
    with pytest.raises(grpc.aio.InternalError):
        await grpc_api.abort(context, grpc.aio.InternalError("no answer could be sent"))
    assert caplog.records == []
    assert context.status is None


async def test_a_bug_is(caplog):
    context = Context()
    with pytest.raises(grpc.aio.AbortError):
        await grpc_api.abort(context, ValueError("a bug"))
    assert "action=call_failed" in caplog.text
    assert context.status.code == grpc.StatusCode.INTERNAL
