"""JSON bodies, weighed before they are read; see `fanlog.routing.json_weight`."""

from __future__ import annotations

import orjson

from fanlog import limits
from fanlog.errors import InvalidArgument, TooLarge
from fanlog.model.json_value import Json
from fanlog.routing.json_weight import is_heavy, weight


def loads(content: bytes) -> Json:
    """The values of a body.

    Raises:
        TooLarge: It has too many of them.
        InvalidArgument: It is no JSON.
    """
    if is_heavy(content):
        raise TooLarge(
            f"the body has too many values: commas, and {limits.JSON_CONTAINER_WEIGHT} for each "
            f"list or object, are {weight(content)}; at most {limits.JSON_WEIGHT_MAX} are allowed"
        )
    try:
        found: Json = orjson.loads(content)
        return found
    except orjson.JSONDecodeError as error:
        raise InvalidArgument(
            f"the body is not JSON: {error.msg} at line {error.lineno}, column {error.colno}"
        ) from error
