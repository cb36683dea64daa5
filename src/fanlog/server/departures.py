"""Callers that go away before their answer has left: nothing is wrong, and nobody is to be told.

gRPC says so in one of two ways, by chance: it cancels the call, or it fails to send the answer and
writes that to the log as an error, with all of its frames.
"""

from __future__ import annotations

import logging

import grpc

#: Where gRPC writes about calls.
LOGGER = "grpc._cython.cygrpc"


def is_departure(error: BaseException | None) -> bool:
    """Whether an answer could not be sent because its caller is gone."""
    return isinstance(error, grpc.aio.InternalError)


def keep_quiet() -> None:
    """Keep gRPC from telling of callers that left; everything else it still tells."""
    logging.getLogger(LOGGER).addFilter(_is_news)


def _is_news(record: logging.LogRecord) -> bool:
    return not (record.exc_info and is_departure(record.exc_info[1]))
