"""JSON bodies are weighed before they are read: three bytes, `[],`, become sixty.

A comma stands before every value but the first of a list or object, so that commas and brackets
bound how many values there are. Those within texts count as well: the bound is far above what a
request needs, and nothing has to be read to hold it.
"""

from __future__ import annotations

from typing import Any

import orjson

from fanlog import limits
from fanlog.errors import InvalidArgument, TooLarge


def weight(content: bytes) -> int:
    """How much JSON weighs: see `limits.JSON_WEIGHT_MAX`."""
    containers = content.count(b"[") + content.count(b"{")
    return content.count(b",") + limits.JSON_CONTAINER_WEIGHT * containers


def loads(content: bytes) -> Any:
    """The values of a body.

    Raises:
        TooLarge: It has too many of them.
        InvalidArgument: It is no JSON.
    """
    found = weight(content)
    if found > limits.JSON_WEIGHT_MAX:
        raise TooLarge(
            f"the body has too many values: commas, and {limits.JSON_CONTAINER_WEIGHT} for each "
            f"list or object, are {found}; at most {limits.JSON_WEIGHT_MAX} are allowed"
        )
    try:
        return orjson.loads(content)
    except orjson.JSONDecodeError as error:
        raise InvalidArgument(
            f"the body is not JSON: {error.msg} at line {error.lineno}, column {error.colno}"
        ) from error
