"""Avro's schema resolution: what a reader's type makes of a writer's, and what it cannot read.

`breaks` looks at the two types alone and lists what may go wrong for some message. `resolve` takes
one message (as values of the JSON encoding) and raises only where that one goes wrong: a symbol
that the reader lacks is a break, but harms only messages that have it.
"""

from __future__ import annotations

from typing import Any

from fanlog.names import shown
from fanlog.schema.avro_tree import MISSING, Field, Node, takes_default
from fanlog.schema.compiled import Impossible, path_of

Path = tuple[str | int, ...]

#: What a reader's primitive can take besides itself.
PROMOTIONS = {
    "long": frozenset({"int"}),
    "float": frozenset({"int", "long"}),
    "double": frozenset({"int", "long", "float"}),
    "string": frozenset({"bytes"}),
    "bytes": frozenset({"string"}),
}


def breaks(reader: Node, writer: Node) -> list[str]:
    """List what the reader's type cannot read of what the writer's type allows."""
    found_breaks: list[str] = []
    _breaks(reader, writer, (), found_breaks, set())
    return found_breaks


def resolve(reader: Node, writer: Node, value: Any, path: Path = ()) -> Any:
    """Turn a valid value of the writer's type into one of the reader's.

    Raises:
        Impossible: The sentence says where and why.
    """
    if writer.kind == "union":
        tag, content = ("null", None) if value is None else next(iter(value.items()))
        branch = next(part for part in writer.parts if part.tag == tag)
        return resolve(reader, branch, content, path)
    if reader.kind == "union":
        branch_read = _branch_for(reader, writer)
        if branch_read is None:
            raise Impossible(f"{path_of(path)}: no branch of the union reads {_said(writer)}")
        content = resolve(branch_read, writer, value, path)
        return None if branch_read.kind == "null" else {branch_read.tag: content}
    if not _matches(reader, writer):
        raise Impossible(f"{path_of(path)}: {_said(reader)} cannot be read from {_said(writer)}")
    match reader.kind:
        case "record":
            return _resolve_record(reader, writer, value, path)
        case "array":
            part, read = writer.parts[0], reader.parts[0]
            return [resolve(read, part, one, (*path, at)) for at, one in enumerate(value)]
        case "map":
            part, read = writer.parts[0], reader.parts[0]
            return {key: resolve(read, part, one, (*path, key)) for key, one in value.items()}
        case "enum" if value not in reader.symbols:
            if reader.default is None:
                raise Impossible(
                    f"{path_of(path)}: enum {reader.name} has no symbol {shown(value)} any more, "
                    "and no default"
                )
            return reader.default
        case "float" | "double":
            return float(value)
        case "string" if writer.kind == "bytes":
            try:
                return value.encode("latin-1").decode()
            except UnicodeDecodeError:
                raise Impossible(f"{path_of(path)}: the bytes are not UTF-8 text") from None
        case "bytes" if writer.kind == "string":
            return value.encode().decode("latin-1")
    return value


def tagged(node: Node, default: Any) -> Any:
    """Give a field's default as a value of the JSON encoding: with the tags of unions."""
    match node.kind:
        case "union":
            part = next(part for part in node.parts if takes_default(part, default))
            return None if part.kind == "null" else {part.tag: tagged(part, default)}
        case "record":
            return {
                one.name: tagged(one.node, default.get(one.name, one.default))
                for one in node.fields
            }
        case "array":
            return [tagged(node.parts[0], item) for item in default]
        case "map":
            return {key: tagged(node.parts[0], item) for key, item in default.items()}
        case "float" | "double":
            return float(default)
    return default


def _resolve_record(reader: Node, writer: Node, value: dict[str, Any], path: Path) -> Any:
    written = {one.name: one for one in writer.fields}
    made: dict[str, Any] = {}
    for one in reader.fields:
        source = _written_as(one, written)
        if source is not None:
            made[one.name] = resolve(
                one.node, source.node, value[source.name], (*path, source.name)
            )
        elif one.default is not MISSING:
            made[one.name] = tagged(one.node, one.default)
        else:
            raise Impossible(
                f"{path_of((*path, one.name))}: the message was written without this field, and "
                "it has no default"
            )
    return made


def _breaks(reader: Node, writer: Node, path: Path, out: list[str], seen: set[Any]) -> None:
    if (id(reader), id(writer)) in seen:
        return
    seen.add((id(reader), id(writer)))
    if writer.kind == "union":
        for part in writer.parts:
            below = (*path, part.tag) if reader.kind == "union" else path
            _breaks(reader, part, below, out, seen)
        return
    if reader.kind == "union":
        branch = _branch_for(reader, writer)
        if branch is None:
            out.append(f"{path_of(path)}: no branch of the union reads {_said(writer)}")
        else:
            _breaks(branch, writer, path, out, seen)
        return
    if not _matches(reader, writer):
        out.append(f"{path_of(path)}: {_said(reader)} cannot be read from {_said(writer)}")
        return
    match reader.kind:
        case "record":
            _record_breaks(reader, writer, path, out, seen)
        case "array" | "map":
            _breaks(reader.parts[0], writer.parts[0], (*path, "*"), out, seen)
        case "enum" if reader.default is None:
            gone = [symbol for symbol in writer.symbols if symbol not in reader.symbols]
            out += [
                f"{path_of(path)}: enum {reader.name} lacks the symbol {shown(symbol)} and has no "
                "default"
                for symbol in gone
            ]


def _record_breaks(reader: Node, writer: Node, path: Path, out: list[str], seen: set[Any]) -> None:
    written = {one.name: one for one in writer.fields}
    for one in reader.fields:
        source = _written_as(one, written)
        if source is not None:
            _breaks(one.node, source.node, (*path, one.name), out, seen)
        elif one.default is MISSING:
            out.append(
                f"{path_of((*path, one.name))}: the field is not written by the other, and has no "
                "default"
            )


def _written_as(read: Field, written: dict[str, Field]) -> Field | None:
    return next(
        (written[name] for name in (read.name, *read.aliases) if name in written),
        None,
    )


def _branch_for(reader: Node, writer: Node) -> Node | None:
    """Give the branch that reads a type: the same if there is one, else the first that can."""
    same = [part for part in reader.parts if part.kind == writer.kind and _matches(part, writer)]
    named = [part for part in same if part.name == writer.name]
    able = [part for part in reader.parts if _matches(part, writer)]
    return next(iter([*named, *same, *able]), None)


def _matches(reader: Node, writer: Node) -> bool:
    """Whether the types are of one kind, name and size; what they contain is not looked at."""
    if reader.kind != writer.kind:
        return writer.kind in PROMOTIONS.get(reader.kind, ())
    if reader.kind in ("record", "enum", "fixed"):
        is_named = reader.short_name == writer.short_name or writer.name in reader.aliases
        return is_named and reader.size == writer.size
    return True


def _said(node: Node) -> str:
    if node.kind == "fixed":
        return f"fixed {node.name} of {node.size} bytes"
    return f"{node.kind} {node.name}" if node.name else node.kind
