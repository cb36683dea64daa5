"""Planted faults: each kind that the targets for HTTP/2 look for is noticed."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any

import pytest

from fanlog.http2 import frames
from fanlog.http2.header_blocks import HeaderDecoder
from fanlog.http2.stream import Http2Stream
from fanlog.transport.messages import MessageReader
from fuzz import http2_seeds
from fuzz.table import TARGETS
from fuzz.targets import http2


def cut_short(stream_id: int, increment: int) -> bytes:
    return frames.head(4, 8, 0, stream_id) + b"\0\0"


def to_the_end(decoder: HeaderDecoder, header: Any, fault: Any) -> None:
    decoder._table.append((header, fault))


def without_a_limit(message: bytes, encoding: bytes, size_max: int) -> bytes:
    return zlib.decompress(message, 47)


def forgets_its_portion(reader: MessageReader, data: bytes) -> None:
    reader._on_message(bytes(data), False)


def any_step(stream: Http2Stream, step: Any) -> None:
    raise KeyError("planted")


@pytest.mark.parametrize(
    ("target", "owner", "name", "fault"),
    [
        ("http2_server", frames, "window_update", cut_short),
        ("http2_server", Http2Stream, "step", any_step),
        ("http2_client", Http2Stream, "step", any_step),
        ("header_blocks", HeaderDecoder, "_insert", to_the_end),
        ("grpc_messages", http2, "unfold", without_a_limit),
        ("grpc_messages", MessageReader, "feed", forgets_its_portion),
    ],
)
def test_planted(
    monkeypatch: pytest.MonkeyPatch, target: str, owner: Any, name: str, fault: Callable[..., Any]
) -> None:
    monkeypatch.setattr(owner, name, fault)
    noticed = 0
    for seed in http2_seeds.seeds()[target]:
        try:
            TARGETS[target].run(seed)
        except (AssertionError, KeyError, IndexError, zlib.error):
            noticed += 1
    assert noticed
