"""Requests: malformed ones and unknown fields are refused, at any depth."""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from fanlog.errors import InvalidArgument, Unimplemented
from fanlog.wire import types
from fanlog.wire.encode import field
from fanlog.wire.fields import (
    duration,
    parse,
    seconds_of,
    time_ns_of,
    timestamp,
    unsupported,
)

UNKNOWN = b"\x9a\x3e\x01x"  # field number 995


def test_parse() -> None:
    given = types.Subscription(
        name="x", labels={"a": "b"}, message_transforms=[{"disabled": True}], retry_policy={}
    )
    assert parse(types.Subscription, given.SerializeToString()) == given


@pytest.mark.parametrize("raw", [b"\x00", b"\x0a\x05x", b"\x0a\x01\xff", b"\xff" * 11])
def test_malformed(raw: bytes) -> None:
    with pytest.raises(InvalidArgument, match=r"^the request is not a valid Topic: malformed"):
        parse(types.Topic, raw)


@pytest.mark.parametrize(
    ("message_class", "raw", "where"),
    [
        (types.Topic, UNKNOWN, "Topic"),
        (types.UpdateTopicRequest, field(b"\x0a", UNKNOWN), "topic"),
        (types.UpdateTopicRequest, field(b"\x0a", field(b"\x42", UNKNOWN)), "topic.message_ret"),
        (types.Topic, field(b"\x6a", UNKNOWN), "message_transforms"),
        (types.PullRequest, UNKNOWN, "PullRequest"),
    ],
)
def test_unknown_fields(message_class: Any, raw: bytes, where: str) -> None:
    with pytest.raises(Unimplemented) as caught:
        parse(message_class, raw)
    assert caught.value.message.startswith(where)
    assert caught.value.message.endswith(
        ": field number 995 is not known to this version; leave it unset"
    )


def test_a_field_of_a_later_api() -> None:
    assert unsupported("brand_new").message == (
        "brand_new: not supported by this version; leave it unset"
    )


@pytest.mark.parametrize("seconds", [0.0, 0.1, 600.0, 600.25, 2_678_400.0])
def test_durations(seconds: float) -> None:
    assert seconds_of(duration(seconds), "x") == seconds


@pytest.mark.parametrize(
    "given",
    [
        Duration(seconds=1, nanos=-1),
        Duration(seconds=-1, nanos=1),
        Duration(nanos=1_000_000_000),
        Duration(seconds=315_576_000_001),
    ],
)
def test_bad_durations(given: Duration) -> None:
    with pytest.raises(InvalidArgument, match=r"^ttl: seconds=.* is not a valid duration"):
        seconds_of(given, "ttl")


def test_times() -> None:
    assert timestamp(1_790_000_000.123456).nanos == 123_456_000
    assert time_ns_of(Timestamp(seconds=5, nanos=7), "x") == 5_000_000_007
    assert time_ns_of(Timestamp(seconds=-5), "x") == -5_000_000_000


@pytest.mark.parametrize(
    "given",
    [
        Timestamp(nanos=-1),
        Timestamp(nanos=1_000_000_000),
        Timestamp(seconds=253_402_300_800),
        Timestamp(seconds=-62_135_596_801),
    ],
)
def test_bad_times(given: Timestamp) -> None:
    with pytest.raises(InvalidArgument, match=r"^time: seconds=.* is not a valid time"):
        time_ns_of(given, "time")
