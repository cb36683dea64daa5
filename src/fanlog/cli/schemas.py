"""`fanlog schema`: create, commit, list, describe, delete."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fanlog.cli import options
from fanlog.cli.groups import add_command
from fanlog.cli.options import Remote
from fanlog.cli.output import resource
from fanlog.errors import InvalidArgument
from fanlog.model import names

if TYPE_CHECKING:
    from fanlog.client import Client

app = typer.Typer(no_args_is_help=True, help="Create, commit, list, describe and delete schemas.")

#: Type words to the API's numbers; JSON Schema is ours.
TYPES = {"protobuf": 1, "avro": 2, "json": 100}
_SUFFIXES = {".proto": "protobuf", ".avsc": "avro", ".avro": "avro", ".json": "json"}

SchemaName = Annotated[str, typer.Argument(metavar="SCHEMA", help="A schema: short or full name.")]
DefinitionFile = Annotated[
    Path, typer.Argument(metavar="FILE", exists=True, dir_okay=False, help="The definition.")
]
TypeWord = Annotated[
    str | None,
    typer.Option(
        "--type", help="avro, protobuf or json; by the file's ending (.avsc, .proto, .json) if not."
    ),
]
CompatibilityLevel = Annotated[
    str | None,
    typer.Option(
        help="What revisions promise: none, backward, forward or full; each but none also with "
        "-transitive behind it."
    ),
]


@add_command(app)
def create(
    *,
    schema: SchemaName,
    file: DefinitionFile,
    kind: TypeWord = None,
    compatibility: CompatibilityLevel = None,
    remote: Remote,
) -> None:
    """Create a schema from a file."""
    name = names.parse_schema(remote.schema(schema))
    parent = names.project_name(name.project)
    with remote.connect() as client:
        made = client.create_schema(parent, name.id, _read(file, kind), compatibility)
        numbers = _numbers(client, made[0].name)
    sentence = f"created schema {made[0].name}, revision {_revision(made[0], numbers)}"
    remote.output.done(sentence, _shown(*made, numbers=numbers))


@add_command(app)
def commit(
    *,
    schema: SchemaName,
    file: DefinitionFile,
    kind: TypeWord = None,
    compatibility: CompatibilityLevel = None,
    remote: Remote,
) -> None:
    """Add a revision to a schema; one that breaks its compatibility is refused."""
    name = remote.schema(schema)
    with remote.connect() as client:
        made = client.commit_schema(name, _read(file, kind), compatibility)
        numbers = _numbers(client, name)
    sentence = f"committed revision {_revision(made[0], numbers)} of schema {made[0].name}"
    remote.output.done(sentence, _shown(*made, numbers=numbers))


@add_command(app, "list")
def list_(remote: Remote) -> None:
    """List the schemas of a project."""
    with remote.connect() as client:
        found = (
            _shown(one, numbers=_numbers(client, one.name))
            for one in client.list_schemas(remote.parent)
        )
        remote.output.rows(["name", "type", "revision", "revision_id"], found)


@add_command(app)
def describe(
    *,
    schema: SchemaName,
    revision: Annotated[
        str | None,
        typer.Option(help="Of this revision, by number or id; of the latest if not given."),
    ] = None,
    remote: Remote,
) -> None:
    """Show a schema, its revisions and its definition."""
    name = remote.schema(schema)
    with remote.connect() as client:
        found = client.get_schema(name if revision is None else f"{name}@{revision}")
        ids = [one.revision_id for one in client.list_schema_revisions(name)]
        numbers = _numbers(client, name)
    fields = _shown(*found, numbers=numbers)
    if remote.json:
        fields |= {"revisions": ids, "revision_numbers": [numbers.get(one) for one in ids]}
    else:
        known = (f"{numbers[one]} ({one})" if one in numbers else one for one in ids)
        fields["revisions"] = " ".join(known)
    remote.output.fields(fields)


@add_command(app)
def delete(schema: SchemaName, remote: Remote) -> None:
    """Delete a schema and its revisions. Topics that have it take no more messages."""
    name = remote.schema(schema)
    with remote.connect() as client:
        client.delete_schema(name)
    remote.report_deleted("schema", name)


def _read(file: Path, kind: str | None) -> Any:
    from fanlog.client import types

    word = kind or _SUFFIXES.get(file.suffix.lower())
    if word is None:
        raise InvalidArgument(
            f"--type: {names.shown(file.name)} does not say by its ending what it is; "
            f"give one of {', '.join(TYPES)}"
        )
    try:
        definition = file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise InvalidArgument(f"{names.shown(str(file))} is not text in UTF-8") from error
    return types.Schema(type_=options.one_of(word, TYPES, "--type"), definition=definition)


def _numbers(client: Client, name: str) -> dict[str, int]:
    """The numbers of a schema's revisions, by their ids."""
    from fanlog.client.catalog import CatalogClient

    return CatalogClient(client).get_revision_numbers(name)


def _revision(schema: Any, numbers: dict[str, int]) -> str:
    number = numbers.get(schema.revision_id)
    return schema.revision_id if number is None else f"{number} ({schema.revision_id})"


def _shown(
    schema: Any, compatibility: str | None = None, *, numbers: dict[str, int]
) -> dict[str, Any]:
    fields = resource(schema)
    words = {number: word for word, number in TYPES.items()}
    fields.pop("type_", None)
    shown = {"name": schema.name, "type": words.get(schema.type_, str(schema.type_))}
    if compatibility:
        shown["compatibility"] = compatibility.lower()
    if schema.revision_id in numbers:
        shown["revision"] = numbers[schema.revision_id]
    return shown | {key: value for key, value in fields.items() if key != "name"}
