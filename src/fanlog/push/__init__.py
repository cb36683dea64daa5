"""Push: what goes to an endpoint, what its answer means, and how hard it may be tried.

No I/O: time is an argument, addresses are given. `fanlog.server.push` does the sending.
"""

from fanlog.push.answers import first_words, first_words_of, printable
from fanlog.push.breaker import Breaker
from fanlog.push.guard import Guard
from fanlog.push.message import PushedMessage, event_id
from fanlog.push.oidc import SigningKey
from fanlog.push.outcome import (
    ANSWERED,
    Outcome,
    of_error,
    of_grpc,
    of_status,
    of_timeout,
    retry_after_s,
)
from fanlog.push.request import push_request
from fanlog.push.signatures import webhook_headers
from fanlog.push.window import Window

__all__ = [
    "ANSWERED",
    "Breaker",
    "Guard",
    "Outcome",
    "PushedMessage",
    "SigningKey",
    "Window",
    "event_id",
    "first_words",
    "first_words_of",
    "of_error",
    "of_grpc",
    "of_status",
    "of_timeout",
    "printable",
    "push_request",
    "retry_after_s",
    "webhook_headers",
]
