"""`fanlog schema`: create, commit, list, describe, delete."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from fanlog import names
from fanlog.cli import options
from fanlog.cli.output import Output, resource
from fanlog.errors import InvalidArgument

app = typer.Typer(no_args_is_help=True, help="Create, commit, list, describe and delete schemas.")

#: Type words to the API's numbers; JSON Schema is ours.
TYPES = {"protobuf": 1, "avro": 2, "json": 100}
_SUFFIXES = {".proto": "protobuf", ".avsc": "avro", ".avro": "avro", ".json": "json"}

Schema = Annotated[str, typer.Argument(metavar="SCHEMA", help="A schema: short or full name.")]
File = Annotated[
    Path, typer.Argument(metavar="FILE", exists=True, dir_okay=False, help="The definition.")
]
Type = Annotated[
    str | None,
    typer.Option(
        "--type", help="avro, protobuf or json; by the file's ending (.avsc, .proto, .json) if not."
    ),
]
Compatibility = Annotated[
    str | None,
    typer.Option(
        help="What revisions promise: none, backward, forward or full; each but none also with "
        "-transitive behind it."
    ),
]


@app.command()
def create(
    schema: Schema,
    file: File,
    kind: Type = None,
    compatibility: Compatibility = None,
    project: options.Project = options.PROJECT,
    endpoint: options.Endpoint = None,
    json: options.Json = False,
) -> None:
    """Create a schema from a file."""
    name = names.parse_schema(options.schema(schema, project))
    parent = names.project_name(name.project)
    with options.connect(endpoint) as client:
        made = client.create_schema(parent, name.id, _read(file, kind), compatibility)
    sentence = f"created schema {made[0].name}, revision {made[0].revision_id}"
    Output(is_json=json).done(sentence, _shown(*made))


@app.command()
def commit(
    schema: Schema,
    file: File,
    kind: Type = None,
    compatibility: Compatibility = None,
    project: options.Project = options.PROJECT,
    endpoint: options.Endpoint = None,
    json: options.Json = False,
) -> None:
    """Add a revision to a schema; one that breaks its compatibility is refused."""
    name = options.schema(schema, project)
    with options.connect(endpoint) as client:
        made = client.commit_schema(name, _read(file, kind), compatibility)
    sentence = f"committed revision {made[0].revision_id} of schema {made[0].name}"
    Output(is_json=json).done(sentence, _shown(*made))


@app.command("list")
def list_(
    project: options.Project = options.PROJECT,
    endpoint: options.Endpoint = None,
    json: options.Json = False,
) -> None:
    """List the schemas of a project."""
    with options.connect(endpoint) as client:
        found = (_shown(one) for one in client.list_schemas(names.project_name(project)))
        Output(is_json=json).rows(["name", "type", "revision_id"], found)


@app.command()
def describe(
    schema: Schema,
    revision: Annotated[
        str | None, typer.Option(help="Of this revision; of the latest if not given.")
    ] = None,
    project: options.Project = options.PROJECT,
    endpoint: options.Endpoint = None,
    json: options.Json = False,
) -> None:
    """Show a schema, its revisions and its definition."""
    name = options.schema(schema, project)
    with options.connect(endpoint) as client:
        found = client.get_schema(name if revision is None else f"{name}@{revision}")
        ids = [one.revision_id for one in client.list_schema_revisions(name)]
    fields = _shown(*found)
    Output(is_json=json).fields(fields | {"revisions": ids if json else " ".join(ids)})


@app.command()
def delete(
    schema: Schema,
    project: options.Project = options.PROJECT,
    endpoint: options.Endpoint = None,
    json: options.Json = False,
) -> None:
    """Delete a schema and its revisions. Topics that have it take no more messages."""
    name = options.schema(schema, project)
    with options.connect(endpoint) as client:
        client.delete_schema(name)
    Output(is_json=json).done(f"deleted schema {name}", {"name": name, "deleted": True})


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


def _shown(schema: Any, compatibility: str | None = None) -> dict[str, Any]:
    fields = resource(schema)
    words = {number: word for word, number in TYPES.items()}
    fields.pop("type_", None)
    shown = {"name": schema.name, "type": words.get(schema.type_, str(schema.type_))}
    if compatibility:
        shown["compatibility"] = compatibility.lower()
    return shown | {key: value for key, value in fields.items() if key != "name"}
