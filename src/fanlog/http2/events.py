"""Events: the meaning of the bytes that came. Values only, in the order of the frames."""

from __future__ import annotations

from typing import NamedTuple

from fanlog.http2.codes import ErrorCode
from fanlog.http2.header_list import HeaderList


class HeadersReceived(NamedTuple):
    """A request begins (server), or an answer (client)."""

    stream_id: int
    headers: HeaderList
    ends: bool


class TrailersReceived(NamedTuple):
    """Headers behind the body; the stream's last word."""

    stream_id: int
    headers: HeaderList


class DataReceived(NamedTuple):
    stream_id: int
    data: bytes
    ends: bool


class StreamReset(NamedTuple):
    """A stream ended early: the peer reset it, or broke a rule (`by_peer` is false)."""

    stream_id: int
    code: int
    by_peer: bool


class StreamDrained(NamedTuple):
    """All data that waited for the peer's windows is on its way."""

    stream_id: int


class HeadersRefused(NamedTuple):
    """A request had more headers than are taken; it was not opened, and is to be answered 431."""

    stream_id: int


class StreamRefused(NamedTuple):
    """A request above the limit of streams was refused, unread; its sender may try again."""

    stream_id: int


class PingAnswered(NamedTuple):
    payload: bytes


class SettingsAgreed(NamedTuple):
    """The peer acknowledged our settings."""


class GoAwayReceived(NamedTuple):
    """The peer ends the connection; streams above `last_id` were not processed."""

    last_id: int
    code: int


class ConnectionEnded(NamedTuple):
    """The peer broke a rule: GOAWAY is in the output, and nothing more is read."""

    code: ErrorCode
    reason: str


Event = (
    HeadersReceived
    | TrailersReceived
    | DataReceived
    | StreamReset
    | StreamDrained
    | HeadersRefused
    | StreamRefused
    | PingAnswered
    | SettingsAgreed
    | GoAwayReceived
    | ConnectionEnded
)
