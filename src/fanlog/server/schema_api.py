"""google.pubsub.v1.SchemaService, for any surface.

Compatibility has no field in Google's API. It rides in the request's metadata, where every client
can put it, and comes back in the answer's:

    fanlog-compatibility: BACKWARD    (or NONE, FORWARD, FULL; each but NONE also …_TRANSITIVE)

With CreateSchema the schema promises it from its first revision on; with CommitSchema and
RollbackSchema from that revision on, which is held to it.
"""

from __future__ import annotations

from google.protobuf.empty_pb2 import Empty

from fanlog.broker.broker import Broker
from fanlog.errors import InvalidArgument
from fanlog.model import names
from fanlog.model.attributes import COMPATIBILITY
from fanlog.model.resources import Compatibility, Schema, SchemaRevision, SchemaType
from fanlog.server.calls import Call, metadata_of
from fanlog.server.methods import method, method_with_call
from fanlog.wire import fields, paging, types
from fanlog.wire.schemas import (
    BASIC,
    FULL,
    HONOURED,
    compatibility_of,
    encoding_of,
    schema_pb,
    type_of,
)


async def create_schema(
    broker: Broker, request: types.CreateSchemaRequest, call: Call
) -> types.Schema:
    project = names.parse_project(request.parent, field="parent")
    name = names.schema_name(project, request.schema_id)
    names.parse_schema(name, field="schema_id")
    if request.schema.name not in ("", name):
        raise InvalidArgument(
            f"schema.name: {names.shown(request.schema.name)} is not {names.shown(name)}, "
            "which parent and schema_id say; leave it unset"
        )
    made = await broker.schemas.create(
        name, *_read_definition(request.schema), _read_compatibility(call)
    )
    return _show(call, *made)


async def get_schema(broker: Broker, request: types.GetSchemaRequest, call: Call) -> types.Schema:
    found = await broker.schemas.get(*names.parse_schema_revision(request.name))
    return _show(call, *found, view=request.view or FULL)


async def list_schemas(
    broker: Broker, request: types.ListSchemasRequest
) -> types.ListSchemasResponse:
    project = names.parse_project(request.parent, field="parent")
    page = paging.read_page(f"schemas of {request.parent}", request)
    found = await broker.schemas.list_all(project, page.after, page.size + 1)
    # Not set, the view is BASIC here, as Google has it.
    view = request.view or BASIC
    shown, token = page.fill(
        found, lambda pair: pair[0].name, lambda pair: schema_pb(*pair, view=view)
    )
    return types.ListSchemasResponse(schemas=shown, next_page_token=token)


async def list_schema_revisions(
    broker: Broker, request: types.ListSchemaRevisionsRequest
) -> types.ListSchemaRevisionsResponse:
    name = str(names.parse_schema(request.name, field="name"))
    page = paging.read_page(f"revisions of {name}", request)
    schema, revisions = await broker.schemas.revisions(name)
    after, view = paging.number_after(page), request.view or BASIC
    found = [r for r in revisions if after is None or r.number < after]
    shown, token = page.fill(
        found[: page.size + 1],
        lambda revision: str(revision.number),
        lambda revision: schema_pb(schema, revision, view=view),
    )
    return types.ListSchemaRevisionsResponse(schemas=shown, next_page_token=token)


async def commit_schema(
    broker: Broker, request: types.CommitSchemaRequest, call: Call
) -> types.Schema:
    name = str(names.parse_schema(request.name, field="name"))
    if request.schema.name.partition("@")[0] not in ("", name):
        raise InvalidArgument(
            f"schema.name: {names.shown(request.schema.name)} is not the schema that is "
            f"committed to, {names.shown(name)}"
        )
    made = await broker.schemas.commit(
        name, *_read_definition(request.schema), _read_compatibility(call)
    )
    return _show(call, *made)


async def rollback_schema(
    broker: Broker, request: types.RollbackSchemaRequest, call: Call
) -> types.Schema:
    name = str(names.parse_schema(request.name, field="name"))
    names.check_revision_id(request.revision_id, field="revision_id")
    made = await broker.schemas.rollback(name, request.revision_id, _read_compatibility(call))
    return _show(call, *made)


async def delete_schema_revision(
    broker: Broker, request: types.DeleteSchemaRevisionRequest, call: Call
) -> types.Schema:
    name, revision = names.parse_schema_revision(request.name)
    # The field is deprecated; the name says it nowadays.
    revision = revision or request.revision_id
    names.check_revision_id(revision, field="name")
    return _show(call, *await broker.schemas.delete_revision(name, revision))


async def delete_schema(broker: Broker, request: types.DeleteSchemaRequest) -> Empty:
    await broker.schemas.delete(str(names.parse_schema(request.name, field="name")))
    return Empty()


async def validate_schema(
    broker: Broker, request: types.ValidateSchemaRequest
) -> types.ValidateSchemaResponse:
    names.parse_project(request.parent, field="parent")
    await broker.schemas.validate_schema(*_read_definition(request.schema))
    return types.ValidateSchemaResponse()


async def validate_message(
    broker: Broker, request: types.ValidateMessageRequest
) -> types.ValidateMessageResponse:
    names.parse_project(request.parent, field="parent")
    match request.WhichOneof("schema_spec"):
        case "name":
            found = await broker.schemas.get(*names.parse_schema_revision(request.name))
            kind, definition = found[0].type, found[1].definition
        case "schema":
            kind, definition = _read_definition(request.schema)
        case _:
            raise InvalidArgument("schema_spec: a name or a schema is needed")
    encoding = encoding_of(request.encoding, "encoding")
    await broker.schemas.validate_message(kind, definition, request.message, encoding)
    return types.ValidateMessageResponse()


def _read_definition(schema: types.Schema) -> tuple[SchemaType, str]:
    """Give the type and definition of a schema in a request."""
    fields.refuse_unsupported(schema, HONOURED)
    return type_of(schema), schema.definition


def _show(
    call: Call, schema: Schema, revision: SchemaRevision, *, view: int = FULL
) -> types.Schema:
    call.set_trailing_metadata(((COMPATIBILITY, schema.compatibility),))
    return schema_pb(schema, revision, view=view)


def _read_compatibility(call: Call) -> Compatibility | None:
    """The compatibility that a request asks for; None if it asks for none.

    Raises:
        InvalidArgument: Not a level of compatibility.
    """
    given = metadata_of(call).get(COMPATIBILITY)
    return None if given is None else compatibility_of(str(given), COMPATIBILITY)


METHODS = (
    method_with_call(
        "CreateSchema", types.CreateSchemaRequest, types.Schema, create_schema, "parent"
    ),
    method_with_call("GetSchema", types.GetSchemaRequest, types.Schema, get_schema),
    method("ListSchemas", types.ListSchemasRequest, types.ListSchemasResponse, list_schemas),
    method(
        "ListSchemaRevisions",
        types.ListSchemaRevisionsRequest,
        types.ListSchemaRevisionsResponse,
        list_schema_revisions,
    ),
    method_with_call(
        "CommitSchema", types.CommitSchemaRequest, types.Schema, commit_schema, "name"
    ),
    method_with_call(
        "RollbackSchema", types.RollbackSchemaRequest, types.Schema, rollback_schema, "name"
    ),
    method_with_call(
        "DeleteSchemaRevision",
        types.DeleteSchemaRevisionRequest,
        types.Schema,
        delete_schema_revision,
        "name",
    ),
    method("DeleteSchema", types.DeleteSchemaRequest, Empty, delete_schema, "name"),
    method(
        "ValidateSchema", types.ValidateSchemaRequest, types.ValidateSchemaResponse, validate_schema
    ),
    method(
        "ValidateMessage",
        types.ValidateMessageRequest,
        types.ValidateMessageResponse,
        validate_message,
    ),
)
