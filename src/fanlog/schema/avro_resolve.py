"""Avro's schema resolution: how messages of a writer's type are read with a reader's type.

`breaks` looks at the two types alone and lists the reasons why some message may not be readable. A
`Resolver` takes one message (as values of the JSON encoding) and raises only where that one is not:
a symbol that the reader lacks is a break, but harms only messages that have it.
"""

from __future__ import annotations

from typing import Any

from fanlog.model.names import shown
from fanlog.schema.avro_defaults import Defaults
from fanlog.schema.avro_tree import PRIMITIVES, AvroNode, Field
from fanlog.schema.budget import StepBudget
from fanlog.schema.compiled import Impossible, path_of

Path = tuple[str | int, ...]

#: The writer's primitives that a reader's primitive can take besides itself.
PROMOTIONS = {
    "long": frozenset({"int"}),
    "float": frozenset({"int", "long"}),
    "double": frozenset({"int", "long", "float"}),
    "string": frozenset({"bytes"}),
    "bytes": frozenset({"string"}),
}


#: Bytes of a default that are written out in one step.
_DEFAULT_BYTES_PER_STEP = 16


def breaks(reader: AvroNode, writer: AvroNode, budget: StepBudget) -> list[str]:
    """List the values that the writer's type allows and the reader's type cannot read."""
    found = _Breaks(budget)
    found.look(reader, writer, ())
    return found.sentences


class _Branches:
    """Which branch of a reader's union reads a writer's type; found once for each pair."""

    def __init__(self) -> None:
        self._found: dict[tuple[int, int], AvroNode | None] = {}

    def of(self, reader: AvroNode, writer: AvroNode, budget: StepBudget) -> AvroNode | None:
        """The same type if there is one, else the first of its kind, else the first that can."""
        place = reader.places.get(writer.tag)
        if place is not None and _is_same(reader.parts[place], writer):
            return reader.parts[place]
        pair = id(reader), id(writer)
        if pair not in self._found:
            budget.spend(3 * len(reader.parts))
            able = [part for part in reader.parts if _matches(part, writer)]
            same = [part for part in able if part.kind == writer.kind]
            self._found[pair] = next(iter([*same, *able]), None)
        return self._found[pair]


class Resolver:
    """Turns values of the writer's type into values of the reader's."""

    def __init__(self, reader: AvroNode, writer: AvroNode, defaults: Defaults) -> None:
        self._reader = reader
        self._writer = writer
        self._defaults = defaults
        self._branches = _Branches()
        #: By a pair of records: the reader's fields, and the writer's field that each is read from.
        self._sources: dict[tuple[int, int], list[tuple[Field, Field | None]]] = {}

    def resolve(self, value: Any, budget: StepBudget) -> Any:
        """Give a valid value of the writer's type as one of the reader's.

        Raises:
            Impossible: The sentence says where and why.
        """
        return self._resolve(self._reader, self._writer, value, (), budget)

    def _resolve(
        self, reader: AvroNode, writer: AvroNode, value: Any, path: Path, budget: StepBudget
    ) -> Any:
        budget.spend()
        if writer.kind == "union":
            tag, content = ("null", None) if value is None else next(iter(value.items()))
            branch = writer.parts[writer.places[tag]]
            return self._resolve(reader, branch, content, path, budget)
        if reader.kind == "union":
            branch_read = self._branches.of(reader, writer, budget)
            if branch_read is None:
                raise Impossible(f"{path_of(path)}: no branch of the union reads {_said(writer)}")
            content = self._resolve(branch_read, writer, value, path, budget)
            return None if branch_read.kind == "null" else {branch_read.tag: content}
        if not _matches(reader, writer):
            raise Impossible(
                f"{path_of(path)}: {_said(reader)} cannot be read from {_said(writer)}"
            )
        if reader.kind == "record":
            return self._record(reader, writer, value, path, budget)
        if reader.kind not in ("array", "map"):
            return _plain(reader, writer, value, path)
        part, read = writer.parts[0], reader.parts[0]
        if reader.kind == "array":
            return [
                self._resolve(read, part, one, (*path, at), budget) for at, one in enumerate(value)
            ]
        return {
            key: self._resolve(read, part, one, (*path, key), budget) for key, one in value.items()
        }

    def _record(
        self,
        reader: AvroNode,
        writer: AvroNode,
        value: dict[str, Any],
        path: Path,
        budget: StepBudget,
    ) -> Any:
        made: dict[str, Any] = {}
        for one, source in self._sources_of(reader, writer, budget):
            if source is not None:
                made[one.name] = self._resolve(
                    one.node, source.node, value[source.name], (*path, source.name), budget
                )
            elif one.has_default:
                extent = self._defaults.measure(one)
                budget.spend(extent.values + extent.size_bytes // _DEFAULT_BYTES_PER_STEP)
                made[one.name] = self._defaults.write(one)
            else:
                raise Impossible(
                    f"{path_of((*path, one.name))}: the message was written without this field, "
                    "and it has no default"
                )
        return made

    def _sources_of(
        self, reader: AvroNode, writer: AvroNode, budget: StepBudget
    ) -> list[tuple[Field, Field | None]]:
        pair = id(reader), id(writer)
        known = self._sources.get(pair)
        if known is None:
            budget.spend(len(reader.fields) + len(writer.fields))
            written = {one.name: one for one in writer.fields}
            known = [(one, _find_source(one, written)) for one in reader.fields]
            self._sources[pair] = known
        return known


def _plain(reader: AvroNode, writer: AvroNode, value: Any, path: Path) -> Any:
    """Give a value that contains no others."""
    match reader.kind:
        case "enum" if value not in reader.places:
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


class _Breaks:
    """One comparison; each pair of types is looked at once."""

    def __init__(self, budget: StepBudget) -> None:
        self.sentences: list[str] = []
        self._budget = budget
        self._branches = _Branches()
        self._seen: set[tuple[int, int]] = set()

    def look(self, reader: AvroNode, writer: AvroNode, path: Path) -> None:
        self._budget.spend()
        # All uses of a primitive are one node, and a break is reported at each place of its use.
        if reader.kind not in PRIMITIVES or writer.kind not in PRIMITIVES:
            if (id(reader), id(writer)) in self._seen:
                return
            self._seen.add((id(reader), id(writer)))
        if writer.kind == "union":
            for part in writer.parts:
                below = (*path, part.tag) if reader.kind == "union" else path
                self.look(reader, part, below)
            return
        if reader.kind == "union":
            branch = self._branches.of(reader, writer, self._budget)
            if branch is None:
                self._say(path, f"no branch of the union reads {_said(writer)}")
            else:
                self.look(branch, writer, path)
            return
        if not _matches(reader, writer):
            self._say(path, f"{_said(reader)} cannot be read from {_said(writer)}")
            return
        match reader.kind:
            case "record":
                self._record(reader, writer, path)
            case "array" | "map":
                self.look(reader.parts[0], writer.parts[0], (*path, "*"))
            case "enum" if reader.default is None:
                self._budget.spend(len(writer.symbols))
                for symbol in writer.symbols:
                    if symbol not in reader.places:
                        lacks = f"lacks the symbol {shown(symbol)} and has no default"
                        self._say(path, f"enum {reader.name} {lacks}")

    def _record(self, reader: AvroNode, writer: AvroNode, path: Path) -> None:
        self._budget.spend(len(reader.fields) + len(writer.fields))
        written = {one.name: one for one in writer.fields}
        for one in reader.fields:
            source = _find_source(one, written)
            if source is not None:
                self.look(one.node, source.node, (*path, one.name))
            elif not one.has_default:
                self._say(
                    (*path, one.name), "the field is not written by the other, and has no default"
                )

    def _say(self, path: Path, problem: str) -> None:
        # A path has as many parts as the types are deep, and is written out for each sentence.
        self._budget.spend(len(path))
        self.sentences.append(f"{path_of(path)}: {problem}")


def _find_source(read: Field, written: dict[str, Field]) -> Field | None:
    return next(
        (written[name] for name in (read.name, *read.aliases) if name in written),
        None,
    )


def _is_same(reader: AvroNode, writer: AvroNode) -> bool:
    """Whether the types are of one kind and full name, and one can be read as the other."""
    return reader.kind == writer.kind and reader.name == writer.name and _matches(reader, writer)


def _matches(reader: AvroNode, writer: AvroNode) -> bool:
    """Whether the types are of one kind, name and size; their parts are not looked at."""
    if reader.kind != writer.kind:
        return writer.kind in PROMOTIONS.get(reader.kind, ())
    if reader.kind in ("record", "enum", "fixed"):
        is_named = reader.short_name == writer.short_name or writer.name in reader.aliases
        return is_named and reader.size == writer.size
    return True


def _said(node: AvroNode) -> str:
    if node.kind == "fixed":
        return f"fixed {node.name} of {node.size} bytes"
    return f"{node.kind} {node.name}" if node.name else node.kind
