"""Google's JSON API: which HTTP request is which verb, as one table.

A row is an HTTP rule as Google's protos annotate it: `{field=pattern}` is a resource name that goes
into that field of the request, `body` the field that the body is (`*` for the request itself). What
neither names may come as a query parameter. A verb that gRPC serves is served here by one row.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from google.protobuf.empty_pb2 import Empty

from fanlog.errors import InvalidArgument
from fanlog.model import names
from fanlog.server.rest import json_in, json_out, json_schema
from fanlog.server.rest.publishing import publish_request
from fanlog.server.rest.route import Asked, Route, parse_template
from fanlog.server.services import METHODS
from fanlog.wire.fields import descriptor_of

_TOPIC = "projects/*/topics/*"
_SUBSCRIPTION = "projects/*/subscriptions/*"
_SNAPSHOT = "projects/*/snapshots/*"
_SCHEMA = "projects/*/schemas/*"


@dataclass(frozen=True, slots=True)
class Binding:
    """One row: `http` and `path` are served by `method`."""

    http: str
    path: str
    #: Service and method, such as `Publisher.Publish`.
    method: str
    body: str = ""
    #: Fields that may come as query parameters although the body is the request.
    query: frozenset[str] = frozenset()


_MASK = frozenset({"update_mask"})

BINDINGS = (
    Binding("PUT", f"/v1/{{name={_TOPIC}}}", "Publisher.CreateTopic", "*"),
    Binding("GET", f"/v1/{{topic={_TOPIC}}}", "Publisher.GetTopic"),
    Binding("PATCH", f"/v1/{{topic.name={_TOPIC}}}", "Publisher.UpdateTopic", "*", _MASK),
    Binding("DELETE", f"/v1/{{topic={_TOPIC}}}", "Publisher.DeleteTopic"),
    Binding("GET", "/v1/{project=projects/*}/topics", "Publisher.ListTopics"),
    Binding("GET", f"/v1/{{topic={_TOPIC}}}/subscriptions", "Publisher.ListTopicSubscriptions"),
    Binding("GET", f"/v1/{{topic={_TOPIC}}}/snapshots", "Publisher.ListTopicSnapshots"),
    Binding("POST", f"/v1/{{topic={_TOPIC}}}:publish", "Publisher.Publish", "*"),
    Binding("POST", f"/v1/{{subscription={_SUBSCRIPTION}}}:detach", "Publisher.DetachSubscription"),
    Binding("PUT", f"/v1/{{name={_SUBSCRIPTION}}}", "Subscriber.CreateSubscription", "*"),
    Binding("GET", f"/v1/{{subscription={_SUBSCRIPTION}}}", "Subscriber.GetSubscription"),
    Binding(
        "PATCH",
        f"/v1/{{subscription.name={_SUBSCRIPTION}}}",
        "Subscriber.UpdateSubscription",
        "*",
        _MASK,
    ),
    Binding("DELETE", f"/v1/{{subscription={_SUBSCRIPTION}}}", "Subscriber.DeleteSubscription"),
    Binding("GET", "/v1/{project=projects/*}/subscriptions", "Subscriber.ListSubscriptions"),
    Binding("POST", f"/v1/{{subscription={_SUBSCRIPTION}}}:pull", "Subscriber.Pull", "*"),
    Binding(
        "POST", f"/v1/{{subscription={_SUBSCRIPTION}}}:acknowledge", "Subscriber.Acknowledge", "*"
    ),
    Binding(
        "POST",
        f"/v1/{{subscription={_SUBSCRIPTION}}}:modifyAckDeadline",
        "Subscriber.ModifyAckDeadline",
        "*",
    ),
    Binding(
        "POST",
        f"/v1/{{subscription={_SUBSCRIPTION}}}:modifyPushConfig",
        "Subscriber.ModifyPushConfig",
        "*",
    ),
    Binding("POST", f"/v1/{{subscription={_SUBSCRIPTION}}}:seek", "Subscriber.Seek", "*"),
    Binding("PUT", f"/v1/{{name={_SNAPSHOT}}}", "Subscriber.CreateSnapshot", "*"),
    Binding("GET", f"/v1/{{snapshot={_SNAPSHOT}}}", "Subscriber.GetSnapshot"),
    Binding("PATCH", f"/v1/{{snapshot.name={_SNAPSHOT}}}", "Subscriber.UpdateSnapshot", "*", _MASK),
    Binding("DELETE", f"/v1/{{snapshot={_SNAPSHOT}}}", "Subscriber.DeleteSnapshot"),
    Binding("GET", "/v1/{project=projects/*}/snapshots", "Subscriber.ListSnapshots"),
    Binding("POST", "/v1/{parent=projects/*}/schemas", "SchemaService.CreateSchema", "schema"),
    Binding("GET", f"/v1/{{name={_SCHEMA}}}", "SchemaService.GetSchema"),
    Binding("GET", "/v1/{parent=projects/*}/schemas", "SchemaService.ListSchemas"),
    Binding("GET", f"/v1/{{name={_SCHEMA}}}:listRevisions", "SchemaService.ListSchemaRevisions"),
    Binding("POST", f"/v1/{{name={_SCHEMA}}}:commit", "SchemaService.CommitSchema", "*"),
    Binding("POST", f"/v1/{{name={_SCHEMA}}}:rollback", "SchemaService.RollbackSchema", "*"),
    Binding(
        "DELETE", f"/v1/{{name={_SCHEMA}}}:deleteRevision", "SchemaService.DeleteSchemaRevision"
    ),
    Binding("DELETE", f"/v1/{{name={_SCHEMA}}}", "SchemaService.DeleteSchema"),
    Binding(
        "POST", "/v1/{parent=projects/*}/schemas:validate", "SchemaService.ValidateSchema", "*"
    ),
    Binding(
        "POST",
        "/v1/{parent=projects/*}/schemas:validateMessage",
        "SchemaService.ValidateMessage",
        "*",
    ),
    *(
        Binding(http, f"/v1/{{resource={resource}}}:{verb}", f"IAMPolicy.{method}", body)
        for resource in (_TOPIC, _SUBSCRIPTION, _SNAPSHOT, _SCHEMA)
        for http, verb, method, body in (
            ("GET", "getIamPolicy", "GetIamPolicy", ""),
            ("POST", "setIamPolicy", "SetIamPolicy", "*"),
            ("POST", "testIamPermissions", "TestIamPermissions", "*"),
        )
    ),
)

#: Query parameters of every Google API that mean something here; the rest are refused.
_SYSTEM_PARAMETERS = {
    "alt": "alt",
    "$alt": "alt",
    "prettyPrint": "prettyPrint",
    "$prettyPrint": "prettyPrint",
}
_ALTS = {"json": False, "json;enum-encoding=int": True}


def routes() -> list[Route]:
    """The routes of the table."""
    return [route(binding) for binding in BINDINGS]


def route(binding: Binding) -> Route:
    """What a row of the table means."""
    method = METHODS[binding.method]
    request, answer = method.request, method.answer
    write: Callable[[bytes, Asked], Any] = partial(_write, answer)
    read: Callable[[Asked], bytes] = partial(read_request, binding, request)
    if binding.method == "Publisher.Publish":
        read, write = partial(_read_publish, read), _write_published
    elif binding.method == "Subscriber.Pull":
        write = _write_pulled
    return Route(
        http=binding.http,
        path=binding.path,
        method=binding.method,
        read=read,
        write=write,
        takes=_takes(binding, request),
        gives=json_schema.reference(descriptor_of(answer)),
        parameters=_parameters(binding, request),
        waits=binding.method == "Subscriber.Pull",
    )


def _takes(binding: Binding, request: Any) -> json_schema.Schema | None:
    if not binding.body:
        return None
    whole = json_schema.reference(request.DESCRIPTOR)
    if binding.body == "*":
        return whole
    part = request.DESCRIPTOR.fields_by_name[binding.body].message_type
    return json_schema.reference(part)


def _parameters(binding: Binding, request: Any) -> dict[str, json_schema.Schema]:
    if binding.body == "*":
        return {_camel_case(name): json_schema.STRING for name in sorted(binding.query)}
    in_path = {name.partition(".")[0] for name in parse_template(binding.path)[2]}
    return json_schema.parameters(request.DESCRIPTOR, frozenset({*in_path, binding.body}))


def _camel_case(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(map(str.capitalize, rest))


def read_request(binding: Binding, request: Any, asked: Asked) -> bytes:
    """Make the request of a row: from the body, then the query, then the path."""
    message = request()
    if binding.body == "*":
        json_in.fill(message, asked.body)
    elif binding.body:
        json_in.fill(message, {binding.body: asked.body})
    parameters = _without_system_parameters(asked)
    if parameters:
        is_whole = binding.body == "*"
        given = {field.name for field, _ in message.ListFields()}
        in_path = {path.partition(".")[0] for path in asked.variables if "." not in path}
        allowed = binding.query - given if is_whole else _fields(request) - given - in_path
        json_in.fill_query(message, parameters, frozenset(allowed))
    for path, name in asked.variables.items():
        _set_name(message, path, name)
    return bytes(message.SerializeToString())


def _fields(request: Any) -> frozenset[str]:
    return frozenset(request.DESCRIPTOR.fields_by_name)


def _without_system_parameters(asked: Asked) -> list[tuple[str, str]]:
    """Take out and heed what is about the answer's form."""
    rest: list[tuple[str, str]] = []
    for key, text in asked.query:
        match _SYSTEM_PARAMETERS.get(key):
            case "alt":
                if text not in _ALTS:
                    raise InvalidArgument(f"{key}: {names.shown(text)}; there is only 'json'")
                asked.has_integer_enums = _ALTS[text]
            case "prettyPrint":
                if text not in ("true", "false"):
                    raise InvalidArgument(f"{key}: must be true or false, not {names.shown(text)}")
                asked.is_pretty = text == "true"
            case _:
                rest.append((key, text))
    return rest


def _set_name(message: Any, path: str, name: str) -> None:
    """Put a resource name of the path where it belongs; a body that has another is refused."""
    *outer, last = path.split(".")
    for part in outer:
        message = getattr(message, part)
    given = getattr(message, last)
    if given and given != name:
        raise InvalidArgument(
            f"{path}: the body says {names.shown(given)}, the path {names.shown(name)}"
        )
    setattr(message, last, name)


def _read_publish(otherwise: Callable[[Asked], bytes], asked: Asked) -> bytes:
    if not asked.query:
        raw = publish_request(asked.variables["topic"], asked.body)
        if raw is not None:
            return raw
    return otherwise(asked)


def _write(answer: Any, raw: bytes, asked: Asked) -> Any:
    if answer is Empty:
        return {}
    return json_out.resource(answer.FromString(raw), has_integer_enums=asked.has_integer_enums)


def _write_published(raw: bytes, _: Asked) -> Any:
    return json_out.published(raw)


def _write_pulled(raw: bytes, _: Asked) -> Any:
    return json_out.pulled(raw)
