"""Push: what goes to an endpoint, what its answer means, and how hard it may be tried.

No I/O: time is an argument, addresses are given. `fanlog.push.senders` does the sending.
"""

from fanlog.push.rules.answers import first_words, first_words_of, printable
from fanlog.push.rules.breaker import Breaker
from fanlog.push.rules.guard import Guard
from fanlog.push.rules.message import PushedMessage, event_id
from fanlog.push.rules.oidc import SigningKey
from fanlog.push.rules.outcome import (
    ANSWERED,
    Outcome,
    of_error,
    of_grpc,
    of_status,
    of_timeout,
    retry_after_s,
)
from fanlog.push.rules.request import push_request
from fanlog.push.rules.signatures import webhook_headers
from fanlog.push.rules.window import Window

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
