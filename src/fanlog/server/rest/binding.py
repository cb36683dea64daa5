"""HTTP bindings: the row of a table that says which HTTP request is which verb.

Every form of REST is a table of these rows. A row alone decides the route, how the request is read,
how the answer is written, and its entry in the OpenAPI document; `google_json.route` and
`short_form.route` make a `Route` of a row, each by the rules of its form. A row has its own
functions only where its verb is an exception to these rules.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from fanlog.model.json_value import Json
from fanlog.server.rest import positions
from fanlog.server.rest.json_schema import JsonSchema
from fanlog.server.rest.publishing import publish_request
from fanlog.server.rest.route import Asked, ReadRequest, WriteAnswer
from fanlog.server.services import METHODS

#: A class of protobuf messages.
MessageType = Any
#: Turns the body of a request into the JSON form of the verb's request.
Translate = Callable[[Any, Asked], Json]
#: Changes the verb's request once all its fields are set.
Finish = Callable[[Any, Asked], None]

_MESSAGES: dict[str, tuple[MessageType, MessageType]] = {
    name: (method.request, method.answer) for name, method in METHODS.items()
} | positions.MESSAGES


@dataclass(frozen=True, slots=True)
class HttpBinding:
    """One row: `http` and `path` are served by `method`."""

    http: str
    path: str
    #: Service and method, such as `Publisher.Publish`.
    method: str
    #: The field of the verb's request that the body is; `*` for the request itself, empty for none.
    body: str = ""
    #: Query parameters with their JSON Schema. In Google's form these are only the parameters that
    #: are allowed beside a body which is the whole request.
    query: Mapping[str, JsonSchema] = field(default_factory=dict)
    #: JSON Schema of the body, where it is not that of the message.
    takes: JsonSchema | None = None
    translate: Translate | None = None
    finish: Finish | None = None
    #: JSON Schema of the answer and its writer, where they are not those of the message.
    gives: JsonSchema | None = None
    write: WriteAnswer | None = None

    @property
    def messages(self) -> tuple[MessageType, MessageType]:
        """The classes of the verb's request and of its answer."""
        return _MESSAGES[self.method]

    @property
    def may_wait(self) -> bool:
        return self.method == "Subscriber.Pull"


def read_publish(name_topic: Callable[[Asked], str], otherwise: ReadRequest, asked: Asked) -> bytes:
    """Read a publish request: most of them straight to bytes, the rest as other requests."""
    if not asked.query:
        raw = publish_request(name_topic(asked), asked.body)
        if raw is not None:
            return raw
    return otherwise(asked)
