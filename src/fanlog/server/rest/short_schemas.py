"""The short form of schemas: by id, with revisions by number or by id.

`order@2` names a revision wherever a schema is named; `compatibility`, which rides in a header
elsewhere, is a field here.
"""

from __future__ import annotations

from functools import partial
from typing import Any, get_args

from fanlog import limits
from fanlog.errors import InvalidArgument
from fanlog.model import names
from fanlog.model.attributes import COMPATIBILITY
from fanlog.model.resources import Compatibility
from fanlog.server.rest import json_in, json_out
from fanlog.server.rest import short_answers as answers
from fanlog.server.rest import short_requests as requests
from fanlog.server.rest import short_shapes as shapes
from fanlog.server.rest.json_schema import BASE64, STRING, TIMESTAMP, Schema, integer, record
from fanlog.server.rest.route import Asked, Route
from fanlog.wire import types

_SCHEMAS = "/v1/schemas"
_SCHEMA = f"{_SCHEMAS}/{{name=*}}"
_REVISION = f"{_SCHEMA}/revisions/{{revision=*}}"
_TYPE: Schema = {"type": "string", "enum": ["AVRO", "PROTOCOL_BUFFER", "JSON"]}
_LEVEL: Schema = {"type": "string", "enum": list(get_args(Compatibility))}
_DEFINED = {"type": _TYPE, "definition": STRING}
_NEW = {"name": STRING, **_DEFINED, "compatibility": _LEVEL}
_COMMIT = {**_DEFINED, "compatibility": _LEVEL}
_NUMBER = integer(1, limits.SCHEMA_REVISION_NUMBER_MAX)
_ROLLBACK = {"revision": {"anyOf": [_NUMBER, STRING]}, "compatibility": _LEVEL}
_MESSAGE = {
    "name": STRING,
    **_DEFINED,
    "encoding": {"type": "string", "enum": ["JSON", "BINARY"]},
    "message": BASE64,
}
_SHOWN = record(
    {**_NEW, "revision": _NUMBER, "revision_id": STRING, "revision_create_time": TIMESTAMP}, "name"
)


def routes() -> list[Route]:
    """All routes of schemas in the short form."""
    committing = partial(
        Route,
        http="POST",
        method="SchemaService.CommitSchema",
        read=_commit,
        write=_write,
        status=201,
        takes=record(_COMMIT, "definition"),
        gives=_SHOWN,
    )
    return [
        Route(
            http="POST",
            path=_SCHEMAS,
            method="SchemaService.CreateSchema",
            read=_create,
            write=_write,
            status=201,
            takes=record(_NEW, "name", "type", "definition"),
            gives=_SHOWN,
        ),
        Route(
            http="GET",
            path=_SCHEMAS,
            method="SchemaService.ListSchemas",
            read=_list,
            write=partial(answers.page, types.ListSchemasResponse, "schemas", _short),
            parameters=shapes.PAGE,
            gives=shapes.page_of("schemas", _SHOWN),
        ),
        Route(
            http="GET",
            path=_SCHEMA,
            method="SchemaService.GetSchema",
            read=partial(requests.named, "schemas", types.GetSchemaRequest, "name"),
            write=_write,
            gives=_SHOWN,
        ),
        Route(
            http="DELETE",
            path=_SCHEMA,
            method="SchemaService.DeleteSchema",
            read=_delete,
            write=answers.nothing,
            status=204,
        ),
        committing(path=f"{_SCHEMA}:commit"),
        Route(
            http="POST",
            path=f"{_SCHEMA}:rollback",
            method="SchemaService.RollbackSchema",
            read=_rollback,
            write=_write,
            status=201,
            takes=record(_ROLLBACK, "revision"),
            gives=_SHOWN,
        ),
        *_revisions(committing),
        *_validating(),
    ]


def _revisions(committing: Any) -> list[Route]:
    return [
        committing(path=f"{_SCHEMA}/revisions"),
        Route(
            http="GET",
            path=f"{_SCHEMA}/revisions",
            method="SchemaService.ListSchemaRevisions",
            read=_list_revisions,
            write=_write_revisions,
            parameters=shapes.PAGE,
            gives=shapes.page_of("revisions", _SHOWN),
        ),
        Route(
            http="GET",
            path=_REVISION,
            method="SchemaService.GetSchema",
            read=partial(_revision, types.GetSchemaRequest),
            write=_write,
            gives=_SHOWN,
        ),
        Route(
            http="DELETE",
            path=_REVISION,
            method="SchemaService.DeleteSchemaRevision",
            read=partial(_revision, types.DeleteSchemaRevisionRequest),
            write=answers.nothing,
            status=204,
        ),
    ]


def _validating() -> list[Route]:
    return [
        Route(
            http="POST",
            path=f"{_SCHEMAS}:validate",
            method="SchemaService.ValidateSchema",
            read=_validate,
            write=answers.nothing,
            status=204,
            takes=record(_DEFINED, "type", "definition"),
        ),
        Route(
            http="POST",
            path=f"{_SCHEMAS}:validate_message",
            method="SchemaService.ValidateMessage",
            read=_validate_message,
            write=answers.nothing,
            status=204,
            takes=record(_MESSAGE, "encoding", "message"),
        ),
    ]


def _create(asked: Asked) -> bytes:
    body = _without_compatibility(requests.fields(asked, _NEW, "name", "type", "definition"), asked)
    name = body.pop("name")
    if not isinstance(name, str):
        raise InvalidArgument(f"name: must be a string, not {json_in.kind(name)}")
    asked.renames.append(("schema_id", "name"))
    request = types.CreateSchemaRequest(parent=_parent(asked), schema_id=name)
    json_in.fill(request.schema, body)
    return bytes(request.SerializeToString())


def _commit(asked: Asked) -> bytes:
    body = _without_compatibility(requests.fields(asked, _COMMIT, "definition"), asked)
    name = requests.own_name("schemas", asked)
    request = types.CommitSchemaRequest(name=name)
    json_in.fill(request.schema, body)
    if body.get("type") is None and asked.facts is not None:
        # All revisions of a schema are of one type.
        request.schema.type_ = asked.facts.schema_type(name)
    return bytes(request.SerializeToString())


def _rollback(asked: Asked) -> bytes:
    body = _without_compatibility(requests.fields(asked, _ROLLBACK, "revision"), asked)
    revision = body["revision"]
    if not isinstance(revision, str | int) or isinstance(revision, bool):
        raise InvalidArgument(f"revision: must be a number or an id, not {json_in.kind(revision)}")
    asked.renames.append(("revision_id", "revision"))
    request = types.RollbackSchemaRequest(
        name=requests.own_name("schemas", asked), revision_id=str(revision)
    )
    return bytes(request.SerializeToString())


def _delete(asked: Asked) -> bytes:
    """Delete a schema, or the revision that its name ends in."""
    name = requests.own_name("schemas", asked)
    if "@" not in name:
        return requests.named("schemas", types.DeleteSchemaRequest, "name", asked)
    asked.verb = "SchemaService.DeleteSchemaRevision"
    return requests.named("schemas", types.DeleteSchemaRevisionRequest, "name", asked)


def _revision(request: Any, asked: Asked) -> bytes:
    requests.fields(asked, {})
    name, revision = asked.variables["name"], asked.variables["revision"]
    full = names.schema_name(asked.project, name)
    return bytes(request(name=f"{full}@{revision}").SerializeToString())


def _list(asked: Asked) -> bytes:
    return requests.with_page(types.ListSchemasRequest(parent=_parent(asked)), asked)


def _list_revisions(asked: Asked) -> bytes:
    request = types.ListSchemaRevisionsRequest(name=requests.own_name("schemas", asked))
    return requests.with_page(request, asked)


def _validate(asked: Asked) -> bytes:
    body = requests.fields(asked, _DEFINED, "type", "definition")
    request = types.ValidateSchemaRequest(parent=_parent(asked))
    json_in.fill(request.schema, body)
    return bytes(request.SerializeToString())


def _validate_message(asked: Asked) -> bytes:
    body = dict(requests.fields(asked, _MESSAGE, "encoding", "message"))
    defined = {name: body.pop(name) for name in ("type", "definition") if name in body}
    if bool(defined) == (body.get("name") is not None):
        raise InvalidArgument("name: give the name of a schema, or type and definition of one")
    if body.get("name") is not None:
        body["name"] = requests.full_name("schemas", body["name"], "name", asked.project)
    else:
        body["schema"] = defined
    request = types.ValidateMessageRequest(parent=_parent(asked))
    json_in.fill(request, body)
    return bytes(request.SerializeToString())


def _parent(asked: Asked) -> str:
    return names.project_name(asked.project)


def _without_compatibility(body: dict[str, Any], asked: Asked) -> dict[str, Any]:
    """The rest of a body, once the verb is told of the compatibility as it wants to be."""
    rest = dict(body)
    level = rest.pop("compatibility", None)
    if level is not None:
        if not isinstance(level, str):
            raise InvalidArgument(f"compatibility: must be a string, not {json_in.kind(level)}")
        asked.renames.append((COMPATIBILITY, "compatibility"))
        asked.metadata = [pair for pair in asked.metadata if pair[0] != COMPATIBILITY]
        asked.metadata.append((COMPATIBILITY, level))
    return rest


def _short(message: Any, project: str) -> dict[str, Any]:
    found = json_out.resource(message)
    shown = {
        "name": answers.short_name(message.name, project),
        "type": found.get("type"),
        "definition": found.get("definition"),
        "revision_id": found.get("revisionId"),
        "revision_create_time": found.get("revisionCreateTime"),
    }
    return {name: value for name, value in shown.items() if value is not None}


def _write(raw: bytes, asked: Asked) -> Any:
    return answers.resource(types.Schema, _short, raw, asked)


def _write_revisions(raw: bytes, asked: Asked) -> Any:
    found = answers.page(types.ListSchemaRevisionsResponse, "schemas", _short, raw, asked)
    return {"revisions": found.pop("schemas"), **found}
