"""Dataclasses from JSON: made by the types that they declare, and refused where these do not fit.

Python does not check annotations. A record of sound bytes and unsound content would become a topic
with a number for a name, and fail far from here.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable, Collection, Mapping
from dataclasses import fields, is_dataclass
from types import NoneType, UnionType
from typing import Any, Literal, NewType, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")
#: Fields that must be there although they have a default, by the dataclass that has them.
Always = Mapping[type[object], Collection[str]]

_Read = Callable[[object], object]

#: A whole number is good enough where JSON is to have a float.
_PLAIN: dict[object, set[type[object]]] = {
    bool: {bool},
    int: {int},
    str: {str},
    NoneType: {NoneType},
    float: {int, float},
}


def reader(kind: type[T], always: Always | None = None) -> Callable[[object], T]:
    """A function that makes a dataclass of a JSON object with its fields, at any depth.

    It raises TypeError for an object that does not fit, which names the first such field. A field
    may be missing if it has a default, and is not one of `always`.
    """
    assert is_dataclass(kind)
    hints = get_type_hints(kind)
    parts = {field.name: _part_reader(hints[field.name], always) for field in fields(kind)}
    required = (always or {}).get(kind, ())
    make: Callable[..., T] = kind

    def read(stored: object) -> T:
        if not isinstance(stored, dict):
            raise _misfit(stored)
        for name in required:
            if name not in stored:
                raise TypeError(f"{name} is missing")
        values = {}
        for name, value in stored.items():
            part = parts.get(name)
            if part is None:
                raise TypeError(f"{name} is not known")
            try:
                values[name] = part(value)
            except TypeError as error:
                raise TypeError(f"{name}: {error}") from None
        return make(**values)

    return read


def _part_reader(hint: object, always: Always | None) -> _Read:
    hint = _bare(hint)
    if hint is Any:
        return lambda value: value
    if hint is bytes:
        return _read_bytes
    origin, args = get_origin(hint), [_bare(one) for one in get_args(hint)]
    if origin is Literal:
        return _literal_reader(args)
    if origin is tuple:
        return _tuple_reader(_part_reader(args[0], always))
    if origin is Mapping:
        return _mapping_reader(*(_part_reader(one, always) for one in args))
    choices = args if origin in (Union, UnionType) else [hint]
    kinds = {kind for one in choices if one in _PLAIN for kind in _PLAIN[one]}
    others = [one for one in choices if one not in _PLAIN]
    if not others:
        return _plain_reader(kinds)
    # JSON does not tell two dataclasses apart.
    (other,) = others
    assert isinstance(other, type)
    part: _Read = reader(other, always)
    return lambda value: value if type(value) in kinds else part(value)


def _plain_reader(kinds: Collection[type[object]]) -> _Read:
    def read(value: object) -> object:
        if type(value) not in kinds:
            raise _misfit(value)
        return value

    return read


def _read_bytes(value: object) -> object:
    """Bytes, which JSON has as a text in base64."""
    if type(value) is not str:
        raise _misfit(value)
    try:
        return b64decode(value, validate=True)
    except ValueError:
        raise TypeError("is not base64") from None


def _literal_reader(choices: Collection[object]) -> _Read:
    def read(value: object) -> object:
        if type(value) is not str or value not in choices:
            raise TypeError(f"cannot be {value!r}")
        return value

    return read


def _tuple_reader(item: _Read) -> _Read:
    def read(value: object) -> object:
        if not isinstance(value, list):
            raise _misfit(value)
        return tuple(map(item, value))

    return read


def _mapping_reader(key: _Read, item: _Read) -> _Read:
    def read(value: object) -> object:
        if not isinstance(value, dict):
            raise _misfit(value)
        return {key(name): item(one) for name, one in value.items()}

    return read


def _misfit(value: object) -> TypeError:
    # Without the value: the secrets of a push config are in no text.
    return TypeError(f"cannot be of type {type(value).__name__}")


def _bare(hint: object) -> object:
    while isinstance(hint, NewType):
        hint = hint.__supertype__
    return hint
