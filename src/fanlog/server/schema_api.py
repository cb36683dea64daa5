"""google.pubsub.v1.SchemaService.

Compatibility has no field in Google's API. It rides in the request's metadata, where every client
can put it, and comes back in the answer's:

    fanlog-compatibility: BACKWARD    (or NONE, FORWARD, FULL; each but NONE also …_TRANSITIVE)

With CreateSchema it is what the schema promises from its first revision on; with CommitSchema and
RollbackSchema what it promises from that revision on, which is held to it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Any

from google.protobuf.empty_pb2 import Empty

from fanlog.broker.broker import Broker
from fanlog.errors import InvalidArgument
from fanlog.model import names
from fanlog.model.attributes import COMPATIBILITY
from fanlog.model.resources import Compatibility, Schema, SchemaRevision, SchemaType
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

if TYPE_CHECKING:
    from fanlog.server.calls import Call, Unary


def methods(broker: Broker) -> dict[str, Unary]:
    """Every method of the service: bytes to bytes."""
    api = SchemaApi(broker)
    return {
        "CreateSchema": _parsed(types.CreateSchemaRequest, api.create),
        "GetSchema": _parsed(types.GetSchemaRequest, api.get),
        "ListSchemas": _parsed(types.ListSchemasRequest, api.list),
        "ListSchemaRevisions": _parsed(types.ListSchemaRevisionsRequest, api.list_revisions),
        "CommitSchema": _parsed(types.CommitSchemaRequest, api.commit),
        "RollbackSchema": _parsed(types.RollbackSchemaRequest, api.rollback),
        "DeleteSchemaRevision": _parsed(types.DeleteSchemaRevisionRequest, api.delete_revision),
        "DeleteSchema": _parsed(types.DeleteSchemaRequest, api.delete),
        "ValidateSchema": _parsed(types.ValidateSchemaRequest, api.validate_schema),
        "ValidateMessage": _parsed(types.ValidateMessageRequest, api.validate_message),
    }


class SchemaApi:
    def __init__(self, broker: Broker) -> None:
        self._schemas = broker.schemas

    async def create(self, request: Any, call: Call) -> Any:
        project = names.parse_project(request.parent, field="parent")
        name = names.schema_name(project, request.schema_id)
        names.parse_schema(name, field="schema_id")
        if request.schema.name not in ("", name):
            raise InvalidArgument(
                f"schema.name: {names.shown(request.schema.name)} is not {names.shown(name)}, "
                "which parent and schema_id say; leave it unset"
            )
        made = await self._schemas.create(name, *_defined(request.schema), _compatibility(call))
        return _shown(call, *made)

    async def get(self, request: Any, call: Call) -> Any:
        found = await self._schemas.get(*names.parse_schema_revision(request.name))
        return _shown(call, *found, view=request.view or FULL)

    async def list(self, request: Any, _: Call) -> Any:
        project = names.parse_project(request.parent, field="parent")
        page = paging.parse_page(
            f"schemas of {request.parent}", request.page_size, request.page_token
        )
        found = await self._schemas.list_all(project, page.after, page.size + 1)
        # Not set, the view is BASIC here, as Google has it.
        view = request.view or BASIC
        shown, token = page.filled(
            found, lambda pair: pair[0].name, lambda pair: schema_pb(*pair, view=view)
        )
        return types.ListSchemasResponse(schemas=shown, next_page_token=token)

    async def list_revisions(self, request: Any, _: Call) -> Any:
        name = str(names.parse_schema(request.name, field="name"))
        page = paging.parse_page(f"revisions of {name}", request.page_size, request.page_token)
        schema, revisions = await self._schemas.revisions(name)
        after, view = paging.number_after(page), request.view or BASIC
        found = [r for r in revisions if after is None or r.number < after]
        shown, token = page.filled(
            found[: page.size + 1],
            lambda revision: str(revision.number),
            lambda revision: schema_pb(schema, revision, view=view),
        )
        return types.ListSchemaRevisionsResponse(schemas=shown, next_page_token=token)

    async def commit(self, request: Any, call: Call) -> Any:
        name = str(names.parse_schema(request.name, field="name"))
        if request.schema.name.partition("@")[0] not in ("", name):
            raise InvalidArgument(
                f"schema.name: {names.shown(request.schema.name)} is not the schema that is "
                f"committed to, {names.shown(name)}"
            )
        made = await self._schemas.commit(name, *_defined(request.schema), _compatibility(call))
        return _shown(call, *made)

    async def rollback(self, request: Any, call: Call) -> Any:
        name = str(names.parse_schema(request.name, field="name"))
        names.check_revision_id(request.revision_id, field="revision_id")
        made = await self._schemas.rollback(name, request.revision_id, _compatibility(call))
        return _shown(call, *made)

    async def delete_revision(self, request: Any, call: Call) -> Any:
        name, revision = names.parse_schema_revision(request.name)
        # The field is deprecated; the name says it nowadays.
        revision = revision or request.revision_id
        names.check_revision_id(revision, field="name")
        return _shown(call, *await self._schemas.delete_revision(name, revision))

    async def delete(self, request: Any, _: Call) -> Any:
        await self._schemas.delete(str(names.parse_schema(request.name, field="name")))
        return Empty()

    async def validate_schema(self, request: Any, _: Call) -> Any:
        names.parse_project(request.parent, field="parent")
        await self._schemas.validate_schema(*_defined(request.schema))
        return types.ValidateSchemaResponse()

    async def validate_message(self, request: Any, _: Call) -> Any:
        names.parse_project(request.parent, field="parent")
        match request.WhichOneof("schema_spec"):
            case "name":
                found = await self._schemas.get(*names.parse_schema_revision(request.name))
                kind, definition = found[0].type, found[1].definition
            case "schema":
                kind, definition = _defined(request.schema)
            case _:
                raise InvalidArgument("schema_spec: a name or a schema is needed")
        encoding = encoding_of(request.encoding, "encoding")
        await self._schemas.validate_message(kind, definition, request.message, encoding)
        return types.ValidateMessageResponse()


def _parsed(request_type: Any, verb: Callable[[Any, Call], Awaitable[Any]]) -> Unary:
    async def called(raw: bytes, call: Call) -> bytes:
        response = await verb(fields.parse(request_type, raw), call)
        return bytes(response.SerializeToString())

    return called


def _defined(schema: Any) -> tuple[SchemaType, str]:
    """Give the type and definition of a schema in a request."""
    fields.refuse_unsupported(schema, HONOURED)
    return type_of(schema), schema.definition


def _shown(call: Call, schema: Schema, revision: SchemaRevision, *, view: int = FULL) -> Any:
    call.set_trailing_metadata(((COMPATIBILITY, schema.compatibility),))
    return schema_pb(schema, revision, view=view)


def _compatibility(call: Call) -> Compatibility | None:
    """What a request says; None if nothing.

    Raises:
        InvalidArgument: Not a word it knows.
    """
    metadata: Iterable[tuple[str, str | bytes]] = call.invocation_metadata() or ()
    given = dict(metadata).get(COMPATIBILITY)
    return None if given is None else compatibility_of(str(given), COMPATIBILITY)
