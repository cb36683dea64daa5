"""The sentences of calls that fail, for each kind of program."""

from __future__ import annotations

from dataclasses import dataclass

import grpc
import pytest

from fanlog.client.connection import resolve_endpoint
from fanlog.client.failures import COMMAND_LINE, SPARK, CallFailed, Wording, failure_of

REFUSED = "failed to connect to all addresses; last error: Connection refused"


@dataclass
class Error:
    """As much of a `grpc.RpcError` as is looked at."""

    status: grpc.StatusCode
    text: str | None

    def code(self) -> grpc.StatusCode:
        return self.status

    def details(self) -> str | None:
        return self.text


def failure(
    status: grpc.StatusCode, text: str | None, wording: Wording, endpoint: str = "host:1"
) -> CallFailed:
    return failure_of(Error(status, text), endpoint=endpoint, timeout_s=2.5, wording=wording)


def test_no_server_is_there():
    found = failure(grpc.StatusCode.UNAVAILABLE, REFUSED, COMMAND_LINE)
    assert found.message == (
        "no server answers at host:1; start one with `fanlog serve`, or name another with "
        "--endpoint"
    )
    assert not found.has_arrived
    found = failure(grpc.StatusCode.UNAVAILABLE, REFUSED, SPARK)
    assert found.message == (
        f"the broker at host:1 cannot be reached ({REFUSED}); start one with `fanlog serve`, or "
        "name another with the option endpoint"
    )
    assert not found.has_arrived


@pytest.mark.parametrize(
    ("endpoint", "last", "sentence"),
    [
        ("host:1", "recvmsg:Connection reset by peer (104)", "hangs up on plain text; if it"),
        ("https://host:1", "Unwrap failed (TSI_DATA_CORRUPTED)", "does not speak TLS, or wants"),
        ("https://host:1", "Handshake read failed", "does not speak TLS, or wants"),
        ("https://host:1", "CERTIFICATE_VERIFY_FAILED: unable", "shows a certificate that"),
    ],
)
def test_a_server_is_there_and_the_two_do_not_agree_on_tls(endpoint, last, sentence):
    text = f"failed to connect to all addresses; last error: UNAVAILABLE: ipv4:h:1: {last}"
    found = failure(grpc.StatusCode.UNAVAILABLE, text, COMMAND_LINE, endpoint)
    assert found.message.startswith(f"the server at {endpoint} {sentence}")
    assert not found.has_arrived


def test_a_server_that_refuses_for_now_gives_its_reason():
    found = failure(grpc.StatusCode.UNAVAILABLE, "the lake is away", COMMAND_LINE)
    assert (found.message, found.status) == ("the lake is away", "UNAVAILABLE")
    assert found.has_arrived
    found = failure(grpc.StatusCode.UNAVAILABLE, "the lake is away", SPARK)
    assert found.message.startswith("the broker at host:1 cannot be reached (the lake is away);")
    assert found.has_arrived


@pytest.mark.parametrize(("wording", "server"), [(COMMAND_LINE, "server"), (SPARK, "broker")])
def test_other_failures(wording, server):
    found = failure(grpc.StatusCode.DEADLINE_EXCEEDED, "Deadline Exceeded", wording)
    assert found.message == f"the {server} at host:1 did not answer within 2.5 s"
    found = failure(grpc.StatusCode.NOT_FOUND, "no such topic", wording)
    assert (found.message, found.status) == ("no such topic", "NOT_FOUND")
    found = failure(grpc.StatusCode.INTERNAL, None, wording)
    assert found.message == f"the {server} at host:1 answered INTERNAL and no reason"


@pytest.mark.parametrize(
    ("status", "credentials", "words"),
    [
        (
            "UNAUTHENTICATED",
            "",
            ["host:1 wants to know who calls", "--token-file", "--credentials"],
        ),
        (
            "UNAUTHENTICATED",
            "the token in 'f'",
            ["does not accept the token in 'f'", "fanlog auth"],
        ),
        ("PERMISSION_DENIED", "", ["not allowed; the call had no credentials", "--token-file"]),
        ("PERMISSION_DENIED", "the token in 'f'", ["not allowed; `fanlog auth whoami`"]),
    ],
)
def test_callers_are_told_what_to_do(status, credentials, words):
    found = failure_of(
        Error(grpc.StatusCode[status], "not allowed"),
        endpoint="host:1",
        timeout_s=2.5,
        wording=COMMAND_LINE,
        credentials=credentials,
    )
    assert found.status == status
    assert [word for word in words if word not in found.message] == []


def test_the_endpoint_is_the_given_one_or_the_environments_or_this_machine():
    environ = {"PUBSUB_EMULATOR_HOST": "other:2"}
    assert resolve_endpoint("host:1", environ) == "host:1"
    assert resolve_endpoint(None, environ) == "other:2"
    assert resolve_endpoint(None, {}) == "127.0.0.1:8085"
