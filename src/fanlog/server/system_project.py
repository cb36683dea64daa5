"""The system project belongs to the service: callers read there, and change nothing.

Jobs and outcomes travel on topics of the project `fanlog-system`. A message that a caller publishes
there would be taken for the service's own, so the row of every method that writes, creates, deletes
or attaches lists the fields that name the resources it changes (`Method.changes`). Consuming is
reading: a pipeline takes its jobs through the same API as every caller.

`Publish` and `Stage` have checks of their own, where the name of the topic is known without parsing
the request a second time.
"""

from __future__ import annotations

from collections.abc import Sequence

from google.protobuf.message import Message

from fanlog.model import endpoints, names
from fanlog.server.calls import Call, Unary
from fanlog.wire import fields

_MARK = names.project_name(names.SYSTEM_PROJECT).encode()


def guard(verb: Unary, request_class: type[Message], paths: Sequence[str]) -> Unary:
    """The verb, refusing requests in which a field of `paths` names the system project."""

    async def call(raw: bytes, context: Call) -> bytes:
        # Looked for in the bytes first: hardly a request has it, and then nothing is parsed twice.
        if _MARK in raw:
            request = fields.parse(request_class, raw)
            for path in paths:
                _check(request, path)
        return await verb(raw, context)

    return call


def _check(request: Message, path: str) -> None:
    *outer, name = path.split(".")
    message = request
    for part in outer:
        message = getattr(message, part)
    value: str = getattr(message, name)
    # A forward's endpoint is the name of a topic behind a scheme.
    names.refuse_system(value.removeprefix(endpoints.TOPIC_SCHEME), field=path)
