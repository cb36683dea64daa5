"""The weight of JSON before it is read: three bytes, `[],`, become sixty.

A comma stands before every value but the first of a list or object, so that commas and brackets
bound how many values there are. Those within strings count as well: the bound is far above the
weight of honest messages, and counting needs no parser.
"""

from __future__ import annotations

from fanlog import limits


def weight(content: bytes) -> int:
    """One for each comma, and `limits.JSON_CONTAINER_WEIGHT` for each list or object."""
    containers = content.count(b"[") + content.count(b"{")
    return content.count(b",") + limits.JSON_CONTAINER_WEIGHT * containers


def is_heavy(content: bytes) -> bool:
    """Whether JSON weighs more than `limits.JSON_WEIGHT_MAX`; short JSON never does."""
    is_long = len(content) * limits.JSON_CONTAINER_WEIGHT > limits.JSON_WEIGHT_MAX
    return is_long and weight(content) > limits.JSON_WEIGHT_MAX
