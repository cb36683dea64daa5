"""Google's JSON API: which HTTP request is which verb, as one table.

A row is an HTTP rule as Google's protos annotate it: `{field=pattern}` is a resource name that goes
into that field of the request, `body` the field that the body is (`*` for the request itself). All
other fields may come as query parameters. A verb that gRPC serves is served here by one row.
"""

from __future__ import annotations

from functools import partial

from google.protobuf.empty_pb2 import Empty
from google.protobuf.message import Message

from fanlog.errors import InvalidArgument
from fanlog.model import names
from fanlog.model.json_value import Json
from fanlog.server.rest import json_in, json_out, json_schema
from fanlog.server.rest.binding import HttpBinding, MessageType, read_publish
from fanlog.server.rest.json_schema import STRING, JsonSchema
from fanlog.server.rest.route import Asked, ReadRequest, Route, WriteAnswer, parse_template

_TOPIC = "projects/*/topics/*"
_SUBSCRIPTION = "projects/*/subscriptions/*"
_SNAPSHOT = "projects/*/snapshots/*"
_SCHEMA = "projects/*/schemas/*"


_MASK: dict[str, JsonSchema] = {"update_mask": STRING}

BINDINGS = (
    HttpBinding("PUT", f"/v1/{{name={_TOPIC}}}", "Publisher.CreateTopic", "*"),
    HttpBinding("GET", f"/v1/{{topic={_TOPIC}}}", "Publisher.GetTopic"),
    HttpBinding("PATCH", f"/v1/{{topic.name={_TOPIC}}}", "Publisher.UpdateTopic", "*", _MASK),
    HttpBinding("DELETE", f"/v1/{{topic={_TOPIC}}}", "Publisher.DeleteTopic"),
    HttpBinding("GET", "/v1/{project=projects/*}/topics", "Publisher.ListTopics"),
    HttpBinding("GET", f"/v1/{{topic={_TOPIC}}}/subscriptions", "Publisher.ListTopicSubscriptions"),
    HttpBinding("GET", f"/v1/{{topic={_TOPIC}}}/snapshots", "Publisher.ListTopicSnapshots"),
    HttpBinding("POST", f"/v1/{{topic={_TOPIC}}}:publish", "Publisher.Publish", "*"),
    HttpBinding(
        "POST", f"/v1/{{subscription={_SUBSCRIPTION}}}:detach", "Publisher.DetachSubscription"
    ),
    HttpBinding("PUT", f"/v1/{{name={_SUBSCRIPTION}}}", "Subscriber.CreateSubscription", "*"),
    HttpBinding("GET", f"/v1/{{subscription={_SUBSCRIPTION}}}", "Subscriber.GetSubscription"),
    HttpBinding(
        "PATCH",
        f"/v1/{{subscription.name={_SUBSCRIPTION}}}",
        "Subscriber.UpdateSubscription",
        "*",
        _MASK,
    ),
    HttpBinding("DELETE", f"/v1/{{subscription={_SUBSCRIPTION}}}", "Subscriber.DeleteSubscription"),
    HttpBinding("GET", "/v1/{project=projects/*}/subscriptions", "Subscriber.ListSubscriptions"),
    HttpBinding("POST", f"/v1/{{subscription={_SUBSCRIPTION}}}:pull", "Subscriber.Pull", "*"),
    HttpBinding(
        "POST", f"/v1/{{subscription={_SUBSCRIPTION}}}:acknowledge", "Subscriber.Acknowledge", "*"
    ),
    HttpBinding(
        "POST",
        f"/v1/{{subscription={_SUBSCRIPTION}}}:modifyAckDeadline",
        "Subscriber.ModifyAckDeadline",
        "*",
    ),
    HttpBinding(
        "POST",
        f"/v1/{{subscription={_SUBSCRIPTION}}}:modifyPushConfig",
        "Subscriber.ModifyPushConfig",
        "*",
    ),
    HttpBinding("POST", f"/v1/{{subscription={_SUBSCRIPTION}}}:seek", "Subscriber.Seek", "*"),
    HttpBinding("PUT", f"/v1/{{name={_SNAPSHOT}}}", "Subscriber.CreateSnapshot", "*"),
    HttpBinding("GET", f"/v1/{{snapshot={_SNAPSHOT}}}", "Subscriber.GetSnapshot"),
    HttpBinding(
        "PATCH", f"/v1/{{snapshot.name={_SNAPSHOT}}}", "Subscriber.UpdateSnapshot", "*", _MASK
    ),
    HttpBinding("DELETE", f"/v1/{{snapshot={_SNAPSHOT}}}", "Subscriber.DeleteSnapshot"),
    HttpBinding("GET", "/v1/{project=projects/*}/snapshots", "Subscriber.ListSnapshots"),
    HttpBinding("POST", "/v1/{parent=projects/*}/schemas", "SchemaService.CreateSchema", "schema"),
    HttpBinding("GET", f"/v1/{{name={_SCHEMA}}}", "SchemaService.GetSchema"),
    HttpBinding("GET", "/v1/{parent=projects/*}/schemas", "SchemaService.ListSchemas"),
    HttpBinding(
        "GET", f"/v1/{{name={_SCHEMA}}}:listRevisions", "SchemaService.ListSchemaRevisions"
    ),
    HttpBinding("POST", f"/v1/{{name={_SCHEMA}}}:commit", "SchemaService.CommitSchema", "*"),
    HttpBinding("POST", f"/v1/{{name={_SCHEMA}}}:rollback", "SchemaService.RollbackSchema", "*"),
    HttpBinding(
        "DELETE", f"/v1/{{name={_SCHEMA}}}:deleteRevision", "SchemaService.DeleteSchemaRevision"
    ),
    HttpBinding("DELETE", f"/v1/{{name={_SCHEMA}}}", "SchemaService.DeleteSchema"),
    HttpBinding(
        "POST", "/v1/{parent=projects/*}/schemas:validate", "SchemaService.ValidateSchema", "*"
    ),
    HttpBinding(
        "POST",
        "/v1/{parent=projects/*}/schemas:validateMessage",
        "SchemaService.ValidateMessage",
        "*",
    ),
    *(
        HttpBinding(http, f"/v1/{{resource={resource}}}:{verb}", f"IAMPolicy.{method}", body)
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


def route(binding: HttpBinding) -> Route:
    """The route of a row, by the rules of Google's form."""
    request, answer = binding.messages
    read: ReadRequest = partial(_read, binding, request)
    write: WriteAnswer = partial(_write, answer)
    if binding.method == "Publisher.Publish":
        read, write = partial(read_publish, _topic, read), json_out.write_published
    elif binding.method == "Subscriber.Pull":
        write = json_out.write_pulled
    return Route(
        http=binding.http,
        path=binding.path,
        method=binding.method,
        read=read,
        write=binding.write or write,
        takes=binding.takes or _takes(binding, request),
        gives=binding.gives or json_schema.reference(answer.DESCRIPTOR),
        parameters=_parameters(binding, request),
        waits=binding.may_wait,
    )


def _takes(binding: HttpBinding, request: MessageType) -> JsonSchema | None:
    if not binding.body:
        return None
    whole = json_schema.reference(request.DESCRIPTOR)
    if binding.body == "*":
        return whole
    part = request.DESCRIPTOR.fields_by_name[binding.body].message_type
    return json_schema.reference(part)


def _parameters(binding: HttpBinding, request: MessageType) -> dict[str, JsonSchema]:
    if binding.body == "*":
        return {camel_case(name): schema for name, schema in binding.query.items()}
    in_path = {name.partition(".")[0] for name in parse_template(binding.path)[2]}
    return json_schema.parameters(request.DESCRIPTOR, frozenset({*in_path, binding.body}))


def camel_case(name: str) -> str:
    """A field's name as protobuf's JSON spells it."""
    first, *rest = name.split("_")
    return first + "".join(map(str.capitalize, rest))


def _read(binding: HttpBinding, request: MessageType, asked: Asked) -> bytes:
    """Make the request of a row: from the body, then the query, then the path."""
    message = request()
    body = binding.translate(asked.body, asked) if binding.translate else asked.body
    if binding.body == "*":
        json_in.fill(message, body)
    elif binding.body:
        json_in.fill(message, {binding.body: body})
    parameters = _without_system_parameters(asked)
    if parameters:
        given = {field.name for field, _ in message.ListFields()}
        in_path = {path.partition(".")[0] for path in asked.variables if "." not in path}
        fields = frozenset(request.DESCRIPTOR.fields_by_name)
        allowed = binding.query.keys() - given if binding.body == "*" else fields - given - in_path
        json_in.fill_query(message, parameters, frozenset(allowed))
    for path, name in asked.variables.items():
        _set_name(message, path, name)
    return bytes(message.SerializeToString())


def _without_system_parameters(asked: Asked) -> list[tuple[str, str]]:
    """Obey the query parameters about the answer's form, and return the others."""
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


def _set_name(message: Message, path: str, name: str) -> None:
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


def _topic(asked: Asked) -> str:
    return asked.variables["topic"]


def _write(answer: MessageType, raw: bytes, asked: Asked) -> Json:
    if answer is Empty:
        return {}
    return json_out.resource(answer.FromString(raw), has_integer_enums=asked.has_integer_enums)
