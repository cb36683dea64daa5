"""Contexts of traces, as texts."""

from __future__ import annotations

import pytest

from fanlog.model.spans import SpanContext, parse_traceparent

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


@pytest.mark.parametrize(("flags", "is_sampled"), [("00", False), ("01", True), ("03", True)])
def test_a_context_is_read(flags, is_sampled):
    found = parse_traceparent(f"00-{TRACE}-{SPAN}-{flags}")
    assert found == SpanContext(bytes.fromhex(TRACE), bytes.fromhex(SPAN), is_sampled)
    assert found.traceparent == f"00-{TRACE}-{SPAN}-{int(is_sampled):02x}"


def test_a_later_version_may_say_more():
    assert parse_traceparent(f"01-{TRACE}-{SPAN}-01-more") is not None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "rubbish",
        f"00-{TRACE}-{SPAN}",
        f"00-{TRACE}-{SPAN}-01-more",
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{TRACE.upper()}-{SPAN}-01",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE}-{SPAN}-1",
        f"00-{TRACE}-{SPAN}-01\n",
        f" 00-{TRACE}-{SPAN}-01",
    ],
)
def test_what_is_no_context(text):
    assert parse_traceparent(text) is None
