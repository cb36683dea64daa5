"""Payloads: the values of a program as the data of messages, and back.

JSON, and `bytes` as they are. What would not come out as it went in is refused.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import orjson

from fanlog.errors import InvalidArgument
from fanlog.model import names

#: Times and objects have no form of their own in JSON: their owner is to choose one.
_OPTIONS = orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_PASSTHROUGH_DATACLASS


def data_of(payload: object) -> bytes:
    """The data of a message with this payload.

    Raises:
        InvalidArgument: JSON has no form for it.
    """
    if isinstance(payload, bytes):
        return payload
    try:
        data = orjson.dumps(payload, option=_OPTIONS)
    except orjson.JSONEncodeError as error:
        raise InvalidArgument(
            f"payload: {names.shown(type(payload).__name__)} is not JSON-able: {error}; a payload "
            "is made of dicts with text keys, lists, texts, numbers, booleans and None, or is bytes"
        ) from error
    # Numbers that JSON does not have are written as null.
    if b"null" in data and _has_odd_number(payload):
        raise InvalidArgument(
            "payload: JSON has no numbers such as nan and inf; send null, or text"
        )
    return data


def payload_of(data: bytes, message_id: str) -> Any:
    """The payload of a message with this data.

    Raises:
        InvalidArgument: The data is not JSON: somebody published bytes.
    """
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise InvalidArgument(
            f"message {message_id}: its data is not JSON ({error}); `data` has the bytes"
        ) from error


def _has_odd_number(payload: object) -> bool:
    # Encoded already, so it is a tree, and no deeper than the encoder goes.
    waiting = [payload]
    while waiting:
        value = waiting.pop()
        if isinstance(value, float):
            if not math.isfinite(value):
                return True
        elif isinstance(value, Mapping):
            waiting.extend(value.values())
        elif isinstance(value, list | tuple):
            waiting.extend(value)
    return False
