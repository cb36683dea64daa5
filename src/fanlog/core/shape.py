"""Whether a value has the types that its dataclass declares, for what comes out of JSON.

Annotations bind nobody: a record whose bytes are sound and whose content is not would otherwise
become a topic with a number for a name, and fail far from here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from types import NoneType, UnionType
from typing import Any, Literal, NewType, Union, get_args, get_origin, get_type_hints

_Check = Callable[[Any], bool]

#: A whole number is good enough where JSON is to have a float.
_PLAIN: dict[Any, set[type[Any]]] = {
    bool: {bool},
    int: {int},
    str: {str},
    NoneType: {NoneType},
    float: {int, float},
}
_CHECKS: dict[type[Any], list[tuple[str, _Check]]] = {}


def check_shape(value: Any) -> None:
    """Check every field of a dataclass, at any depth.

    Raises:
        TypeError: Names the first field that does not fit.
    """
    for name, fits in _checks_of(type(value)):
        if not fits(getattr(value, name)):
            raise TypeError(f"{name} cannot be {getattr(value, name)!r}")


def _checks_of(kind: type[Any]) -> list[tuple[str, _Check]]:
    checks = _CHECKS.get(kind)
    if checks is None:
        hints = get_type_hints(kind)
        checks = [(field.name, _check_of(hints[field.name])) for field in fields(kind)]
        _CHECKS[kind] = checks
    return checks


def _check_of(hint: Any) -> _Check:
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


def _bare(hint: Any) -> Any:
    while isinstance(hint, NewType):
        hint = hint.__supertype__
    return hint


def _has_shape(value: Any) -> bool:
    return all(fits(getattr(value, name)) for name, fits in _checks_of(type(value)))
