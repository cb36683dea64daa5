"""Values of dataclasses that come out of JSON: made by the declared types, and checked by them.

Python does not check annotations. A record whose bytes are sound and whose content is not would
become a topic with a number for a name, and fail far from here.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import fields, is_dataclass
from types import NoneType, UnionType
from typing import Any, Literal, NewType, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")
#: Fields that must be there although they have a default, by the dataclass that has them.
Always = Mapping[type[object], Collection[str]]

_Check = Callable[[object], bool]
_Read = Callable[[object], object]

#: A whole number is good enough where JSON is to have a float.
_PLAIN: dict[object, set[type[object]]] = {
    bool: {bool},
    int: {int},
    str: {str},
    NoneType: {NoneType},
    float: {int, float},
}
_CHECKS: dict[type[object], list[tuple[str, _Check]]] = {}


def reader(kind: type[T], always: Always) -> Callable[[object], T]:
    """A function that makes a dataclass of the fields of a JSON object, and checks their types.

    It raises TypeError or ValueError for fields that do not fit.
    """
    build = _builder(kind, always)

    def read(stored: object) -> T:
        value = build(stored)
        check_shape(value)
        return value

    return read


def check_shape(value: object) -> None:
    """Check every field of a dataclass, at any depth.

    Raises:
        TypeError: Names the first field that does not fit.
    """
    for name, fits in _checks_of(type(value)):
        if not fits(getattr(value, name)):
            raise TypeError(f"{name} cannot be {getattr(value, name)!r}")


def _builder(kind: type[T], always: Always) -> Callable[[object], T]:
    assert is_dataclass(kind)
    hints = get_type_hints(kind)
    parts: dict[str, _Read] = {}
    for field in fields(kind):
        part = _part_reader(hints[field.name], always)
        if part is not None:
            parts[field.name] = part
    required = always.get(kind, ())
    make: Callable[..., T] = kind

    def build(stored: object) -> T:
        # Errors name no values: a push config has secrets.
        if not isinstance(stored, dict):
            raise TypeError(f"{kind.__name__} cannot be a {type(stored).__name__}")
        for name in required:
            if name not in stored:
                raise ValueError(f"{kind.__name__} is without {name}")
        read = {name: part(stored[name]) for name, part in parts.items() if name in stored}
        return make(**stored | read)

    return build


def _part_reader(hint: object, always: Always) -> _Read | None:
    """Reads a field that JSON has no type for, a tuple or a dataclass; None for all others."""
    hint = _bare(hint)
    if get_origin(hint) is tuple:
        return _tuple_reader(_part_reader(get_args(hint)[0], always))
    if get_origin(hint) in (Union, UnionType):
        choices = [_part_reader(one, always) for one in get_args(hint)]
        reads = [one for one in choices if one is not None]
        assert len(reads) <= 1, "JSON does not tell two dataclasses apart"
        return _optional_reader(reads[0]) if reads else None
    return _builder(hint, always) if isinstance(hint, type) and is_dataclass(hint) else None


def _tuple_reader(item: _Read | None) -> _Read:
    def read(stored: object) -> object:
        if not isinstance(stored, list):
            raise TypeError(f"a list cannot be a {type(stored).__name__}")
        return tuple(stored) if item is None else tuple(map(item, stored))

    return read


def _optional_reader(part: _Read) -> _Read:
    return lambda stored: None if stored is None else part(stored)


def _checks_of(kind: type[object]) -> list[tuple[str, _Check]]:
    checks = _CHECKS.get(kind)
    if checks is None:
        assert is_dataclass(kind)
        hints = get_type_hints(kind)
        checks = [(field.name, _check_of(hints[field.name])) for field in fields(kind)]
        _CHECKS[kind] = checks
    return checks


def _check_of(hint: object) -> _Check:
    hint = _bare(hint)
    if hint is Any:
        return lambda _: True
    origin, args = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        if all(_bare(one) in _PLAIN for one in args):
            kinds = {kind for one in args for kind in _PLAIN[_bare(one)]}
            return lambda value: type(value) in kinds
        choices = [_check_of(one) for one in args]
        return lambda value: any(fits(value) for fits in choices)
    if origin is Literal:
        return lambda value: type(value) is str and value in args
    if origin is tuple:
        item = _check_of(args[0])
        return lambda value: isinstance(value, tuple) and all(map(item, value))
    if origin is Mapping:
        key, item = map(_check_of, args)
        return lambda value: (
            isinstance(value, dict) and all(map(key, value)) and all(map(item, value.values()))
        )
    if is_dataclass(hint):
        return lambda value: type(value) is hint and _has_shape(value)
    plain = _PLAIN[hint]
    return lambda value: type(value) in plain


def _bare(hint: object) -> object:
    while isinstance(hint, NewType):
        hint = hint.__supertype__
    return hint


def _has_shape(value: object) -> bool:
    return all(fits(getattr(value, name)) for name, fits in _checks_of(type(value)))
