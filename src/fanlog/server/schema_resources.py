"""Schemas of a resources file: read from it, made when they are missing.

    [schemas.order]
    type = "AVRO"
    definition_file = "order.avsc"
    compatibility = "BACKWARD"

A definition stands in the file itself (`definition`) or in one of its own, whose path is relative
to the resources file. Like all resources a schema that is there is left as it is: a start commits
no revision.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from fanlog import limits
from fanlog.broker.broker import Broker
from fanlog.errors import InvalidArgument
from fanlog.model import names
from fanlog.model.resources import Compatibility, SchemaType
from fanlog.schema import compile_schema
from fanlog.wire.schemas import compatibility_of

#: As the file spells them, and as Google's JSON would.
_FIELDS = {
    "name": "name",
    "type": "type",
    "definition": "definition",
    "definition_file": "definition_file",
    "definitionFile": "definition_file",
    "compatibility": "compatibility",
}

_TYPES: dict[str, SchemaType] = {kind: kind for kind in get_args(SchemaType)}


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaResource:
    """A schema that should be there, at its latest revision."""

    name: str
    type: SchemaType
    definition: str
    compatibility: Compatibility = "NONE"


def read_schema(folder: Path, name: str, value: Mapping[str, object]) -> SchemaResource:
    """Read one schema; `folder` is where paths of definitions begin.

    Raises:
        InvalidArgument: Names the field and the mistake in it.
    """
    names.parse_schema(name, field="name")
    given: dict[str, str] = {}
    for key, text in value.items():
        if key not in _FIELDS:
            known = ", ".join(dict.fromkeys(_FIELDS.values()))
            raise InvalidArgument(f"{key}: no such field of a schema; there are {known}")
        if not isinstance(text, str):
            raise InvalidArgument(f"{key}: must be a text")
        if _FIELDS[key] in given:
            raise InvalidArgument(f"{key}: is given twice")
        given[_FIELDS[key]] = text
    if given.get("name", name) != name:
        raise InvalidArgument(f"name: {given['name']!r} is not the name it stands under")
    kind = _read_type(given.get("type", ""))
    definition = _read_definition(folder, given)
    compile_schema(kind, definition)
    level = compatibility_of(given.get("compatibility", "NONE"), "compatibility")
    return SchemaResource(name=name, type=kind, definition=definition, compatibility=level)


def find_schema(broker: Broker, name: str) -> SchemaResource | None:
    """The schema of that name as it is; None if there is none."""
    table = broker.hard.catalog.schemas
    schema = table.find(name)
    if schema is None:
        return None
    return SchemaResource(
        name=name,
        type=schema.type,
        definition=table.revision(schema, "").definition,
        compatibility=schema.compatibility,
    )


async def create_schema(broker: Broker, wanted: SchemaResource) -> None:
    """Raises as `Schemas.create` does."""
    await broker.schemas.create(wanted.name, wanted.type, wanted.definition, wanted.compatibility)


def _read_type(text: str) -> SchemaType:
    kind = _TYPES.get(text)
    if kind is None:
        raise InvalidArgument(f"type: {names.shown(text)} is not one of {', '.join(_TYPES)}")
    return kind


def _read_definition(folder: Path, given: Mapping[str, str]) -> str:
    if ("definition" in given) == ("definition_file" in given):
        raise InvalidArgument("definition: either this or definition_file is needed")
    if "definition" in given:
        return given["definition"]
    path = folder / given["definition_file"]
    try:
        with path.open("rb") as file:
            content = file.read(limits.SCHEMA_DEFINITION_BYTES_MAX + 1)
        text = content.decode()
    except OSError as error:
        raise InvalidArgument(f"definition_file: {path} cannot be read: {error.strerror}") from None
    except ValueError:
        raise InvalidArgument(f"definition_file: {path} is not text in UTF-8") from None
    return text
