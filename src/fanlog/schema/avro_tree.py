"""An Avro definition as a tree: parsed, names resolved, and refused with the place of the mistake.

Avro 1.11, as Google has it. The tree may have cycles, since a record may contain itself.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

import orjson

from fanlog.errors import InvalidArgument
from fanlog.model.json_value import Json, JsonObject
from fanlog.model.names import shown
from fanlog.schema.budget import StepBudget, budget_to_compile
from fanlog.schema.compiled import Mismatch, check_nesting, found

PRIMITIVES = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_NAME_RULE = "a name has letters, digits and '_', and does not begin with a digit"

#: Characters of names that are written out in one step.
_NAME_BYTES_PER_STEP = 64

_FLOAT_MAX = 3.4028234663852886e38

Path = tuple[str | int, ...]


@dataclass(slots=True, eq=False)
class Field:
    name: str
    node: AvroNode
    #: None without a default, and for the default null.
    default: Json = None
    has_default: bool = False
    aliases: tuple[str, ...] = ()


@dataclass(slots=True, eq=False)
class AvroNode:
    """One type; which fields say something depends on its kind."""

    #: A primitive's name, or record, enum, fixed, array, map or union.
    kind: str
    #: Full name of a record, enum or fixed.
    name: str = ""
    aliases: tuple[str, ...] = ()
    fields: list[Field] = field(default_factory=list)
    symbols: tuple[str, ...] = ()
    #: Of an enum: the symbol that stands for those it does not know.
    default: str | None = None
    size: int = 0
    #: Types of a union; the one of an array's items or of a map's values.
    parts: list[AvroNode] = field(default_factory=list)
    #: Place of each symbol in an enum, of each type in a union by its tag.
    places: dict[str, int] = field(default_factory=dict)

    @property
    def tag(self) -> str:
        """How a union's JSON names this branch."""
        return self.name or self.kind

    @property
    def short_name(self) -> str:
        return self.name.rpartition(".")[2]


#: One for each, which all definitions share.
_PRIMITIVE_NODES = {name: AvroNode(kind=name) for name in PRIMITIVES}


def parse(definition: str, budget: StepBudget | None = None) -> AvroNode:
    """Parse a definition, from a budget or from one of its own.

    Raises:
        InvalidArgument: The sentence names the place, and the type or value that Avro wants there.
    """
    try:
        source = orjson.loads(definition)
    except orjson.JSONDecodeError as error:
        if _NAME.fullmatch(definition.strip()):
            source = definition.strip()
        else:
            raise InvalidArgument(
                f"the Avro definition is not JSON: {error.msg} at line {error.lineno}, "
                f"column {error.colno}"
            ) from error
    if isinstance(source, list):
        raise InvalidArgument(
            "the Avro definition is a union at its top; a schema has exactly one top-level type"
        )
    check_nesting(source, "the Avro definition")
    try:
        reader = _Reader(budget or budget_to_compile(definition))
        node = reader.type_of(source, (), "")
        while reader.deferred:
            reader.deferred.popleft()()
    except Mismatch as error:
        raise InvalidArgument(f"the Avro definition is wrong at {error}") from error
    except RecursionError as error:
        raise InvalidArgument("the Avro definition is nested too deeply") from error
    return node


class _Reader:
    """One pass over the JSON; types may refer only to those before them, and to themselves."""

    def __init__(self, budget: StepBudget) -> None:
        self._budget = budget
        self._named: dict[str, AvroNode] = {}
        #: Defaults are checked when all types are complete.
        self.deferred: deque[Callable[[], None]] = deque()

    def type_of(self, source: Json, path: Path, namespace: str) -> AvroNode:
        self._budget.spend()
        if isinstance(source, str):
            return self._reference(source, path, namespace)
        if isinstance(source, list):
            return self._union(source, path, namespace)
        if not isinstance(source, dict):
            raise Mismatch(f"expected a type, found {found(source)}", path)
        if "type" not in source:
            raise Mismatch("expected an object with 'type', which is not there", path)
        kind = source["type"]
        if isinstance(kind, dict | list):
            return self.type_of(kind, (*path, "type"), namespace)
        match kind:
            case "record" | "error":
                return self._record(source, path, namespace)
            case "enum":
                return self._enum(source, path, namespace)
            case "fixed":
                return self._fixed(source, path, namespace)
            case "array":
                return AvroNode(kind="array", parts=[self._part(source, "items", path, namespace)])
            case "map":
                return AvroNode(kind="map", parts=[self._part(source, "values", path, namespace)])
        if not isinstance(kind, str):
            raise Mismatch(f"expected the name of a type, found {found(kind)}", (*path, "type"))
        return self._reference(kind, (*path, "type"), namespace)

    def _reference(self, name: str, path: Path, namespace: str) -> AvroNode:
        primitive = _PRIMITIVE_NODES.get(name)
        if primitive is not None:
            return primitive
        known = self._named.get(self._full(name, namespace)) or self._named.get(name)
        if known is None:
            raise Mismatch(
                f"the type {shown(name)} is not known; it is no type of Avro's, and no record, "
                "enum or fixed before this place has that name",
                path,
            )
        return known

    def _union(self, source: list[Json], path: Path, namespace: str) -> AvroNode:
        if not source:
            raise Mismatch("expected at least one type in the union, found none", path)
        parts = [self.type_of(one, (*path, at), namespace) for at, one in enumerate(source)]
        places: dict[str, int] = {}
        for at, part in enumerate(parts):
            if part.kind == "union":
                raise Mismatch("a union stands in a union, which Avro does not allow", (*path, at))
            if part.tag in places:
                raise Mismatch(f"the union has {shown(part.tag)} twice", (*path, at))
            places[part.tag] = at
        return AvroNode(kind="union", parts=parts, places=places)

    def _record(self, source: JsonObject, path: Path, namespace: str) -> AvroNode:
        node, inner = self._name(source, "record", path, namespace)
        members = source.get("fields")
        if not isinstance(members, list):
            raise Mismatch(f"expected a list of fields, found {found(members)}", (*path, "fields"))
        taken: set[str] = set()
        for at, member in enumerate(members):
            where = (*path, "fields", at)
            made = self._field(member, where, inner)
            for name in (made.name, *made.aliases):
                if name in taken:
                    raise Mismatch(f"the record has a field {shown(name)} already", where)
                taken.add(name)
            node.fields.append(made)
        return node

    def _field(self, source: Json, path: Path, namespace: str) -> Field:
        if not isinstance(source, dict):
            raise Mismatch(f"expected a field as an object, found {found(source)}", path)
        name = _simple_name(source.get("name"), (*path, "name"))
        if "type" not in source:
            raise Mismatch(f"the field {shown(name)} has no 'type'", path)
        node = self.type_of(source["type"], (*path, "type"), namespace)
        made = Field(name, node, source.get("default"), "default" in source, _aliases(source, path))
        if made.has_default:
            where = (*path, "default")
            self.deferred.append(lambda: check_default(node, made.default, where, self._budget))
        return made

    def _enum(self, source: JsonObject, path: Path, namespace: str) -> AvroNode:
        node, _ = self._name(source, "enum", path, namespace)
        symbols = source.get("symbols")
        if not isinstance(symbols, list) or not symbols:
            raise Mismatch(
                f"expected a list of symbols, found {found(symbols)}", (*path, "symbols")
            )
        node.symbols = tuple(
            _simple_name(symbol, (*path, "symbols", at)) for at, symbol in enumerate(symbols)
        )
        self._budget.spend(len(symbols))
        node.places = {symbol: place for place, symbol in enumerate(node.symbols)}
        if len(node.places) != len(symbols):
            raise Mismatch("a symbol is there twice", (*path, "symbols"))
        default = source.get("default")
        if default is not None:
            if not isinstance(default, str) or default not in node.places:
                raise Mismatch(
                    f"expected one of the symbols, found {found(default)}", (*path, "default")
                )
            node.default = default
        return node

    def _fixed(self, source: JsonObject, path: Path, namespace: str) -> AvroNode:
        node, _ = self._name(source, "fixed", path, namespace)
        size = source.get("size")
        if type(size) is not int or size < 0:
            raise Mismatch(f"expected a number of bytes, found {found(size)}", (*path, "size"))
        node.size = size
        return node

    def _part(self, source: JsonObject, key: str, path: Path, namespace: str) -> AvroNode:
        if key not in source:
            raise Mismatch(f"expected '{key}', which says what it contains", path)
        return self.type_of(source[key], (*path, key), namespace)

    def _name(
        self, source: JsonObject, kind: str, path: Path, namespace: str
    ) -> tuple[AvroNode, str]:
        """Begin a named type; it may refer to itself from here on."""
        name = source.get("name")
        if not isinstance(name, str) or not all(map(_NAME.fullmatch, name.split("."))):
            raise Mismatch(f"expected a name, found {found(name)}; {_NAME_RULE}", (*path, "name"))
        if "." not in name:
            own = source.get("namespace", namespace)
            if not isinstance(own, str) or not all(
                map(_NAME.fullmatch, own.split(".") * bool(own))
            ):
                raise Mismatch(
                    f"expected names joined by dots, found {found(own)}", (*path, "namespace")
                )
            name = self._full(name, own)
        if name in self._named or name in PRIMITIVES:
            raise Mismatch(f"the name {shown(name)} is taken already", (*path, "name"))
        inner = name.rpartition(".")[0]
        aliases = tuple(self._full(alias, inner) for alias in _aliases(source, path))
        node = AvroNode(kind=kind, name=name, aliases=aliases)
        self._named[name] = node
        return node, inner

    def _full(self, name: str, namespace: str) -> str:
        # A long namespace stands before each of many short names.
        self._budget.spend(1 + len(namespace) // _NAME_BYTES_PER_STEP)
        return name if "." in name or not namespace else f"{namespace}.{name}"


def _simple_name(name: Json, path: Path) -> str:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise Mismatch(f"expected a name, found {found(name)}; {_NAME_RULE}", path)
    return name


def _aliases(source: JsonObject, path: Path) -> tuple[str, ...]:
    aliases = source.get("aliases", [])
    if isinstance(aliases, list):
        names = tuple(alias for alias in aliases if isinstance(alias, str))
        if len(names) == len(aliases):
            return names
    raise Mismatch(f"expected a list of names, found {found(aliases)}", (*path, "aliases"))


def check_default(node: AvroNode, value: Json, path: Path, budget: StepBudget) -> None:
    """Check a default, which is written as JSON without the tags of unions; raises Mismatch."""
    budget.spend()
    match node.kind:
        case "union":
            # 1.11 asks for the first branch; writers of schemas know it as "any of them".
            if not any(takes_default(part, value, budget) for part in node.parts):
                raise Mismatch(
                    f"expected a type of the union as default, found {found(value)}", path
                )
        case "record":
            if not isinstance(value, dict):
                raise Mismatch(f"expected an object as default, found {found(value)}", path)
            for one in node.fields:
                if one.name in value:
                    check_default(one.node, value[one.name], (*path, one.name), budget)
                elif not one.has_default:
                    raise Mismatch(f"the default lacks the field {shown(one.name)}", path)
            budget.spend(len(node.fields))
        case "array" if isinstance(value, list):
            for at, item in enumerate(value):
                check_default(node.parts[0], item, (*path, at), budget)
        case "map" if isinstance(value, dict):
            for key, item in value.items():
                check_default(node.parts[0], item, (*path, key), budget)
        case _:
            if not _is_default(node, value):
                raise Mismatch(f"expected {node.kind} as default, found {found(value)}", path)


def takes_default(node: AvroNode, value: Json, budget: StepBudget) -> bool:
    """Whether a value, written as defaults are, is one of the type."""
    try:
        check_default(node, value, (), budget)
    except Mismatch:
        return False
    return True


def _is_symbol(node: AvroNode, value: Json) -> bool:
    return isinstance(value, str) and value in node.places


def _is_default(node: AvroNode, value: Json) -> bool:
    match node.kind:
        case "null":
            return value is None
        case "boolean":
            return isinstance(value, bool)
        case "int":
            return type(value) is int and -(2**31) <= value < 2**31
        case "long":
            return type(value) is int and -(2**63) <= value < 2**63
        case "float":
            return (type(value) is int or type(value) is float) and abs(value) <= _FLOAT_MAX
        case "double":
            return type(value) in (int, float)
        case "string":
            return isinstance(value, str)
        case "bytes":
            return isinstance(value, str) and all(ord(one) < 256 for one in value)
        case "fixed":
            return (
                isinstance(value, str)
                and len(value) == node.size
                and all(ord(one) < 256 for one in value)
            )
        case "enum":
            return _is_symbol(node, value)
    return False
