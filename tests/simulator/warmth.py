"""Hard state that is kept warm, as a standby keeps it, beside the log of a world."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any

from pyroaring import BitMap64

from fanlog.core.hard_state import HardState
from fanlog.core.warm_state import WarmState
from fanlog.log.api import Commit, Log

_PLAIN = (int, float, str, bytes, bool, type(None), BitMap64, set, frozenset, type)
_CODE = (FunctionType, MethodType, BuiltinFunctionType)


class Warmth:
    """What the commits of a log changed since it was last looked at."""

    def __init__(self) -> None:
        self._warm: WarmState | None = None
        self._changes: dict[bytes, bytes | None] = {}
        #: Looks at a state that no commit since had made stale.
        self.followed = 0

    def note(self, commit: Commit) -> None:
        self._changes.update(commit.state)

    def look(self, store: Log) -> str:
        """Follow the log to here; how the state then differs from a loaded one, or nothing."""
        changes, self._changes = self._changes, {}
        warm = self._warm
        if warm is not None:
            warm.change(changes.items())
            warm.settle()
        if warm is None or warm.stale:
            self._warm = WarmState(store.state())
            return ""
        self.followed += 1
        # A look changes nothing, so the same state goes on.
        return next(differences(warm.take(), HardState.load(store.state())), "")


def differences(one: Any, other: Any) -> Iterator[str]:
    """Where two graphs of objects differ; the order of mappings is not looked at.

    What is one object in the one graph is one in the other: a change of it is seen by all that have
    it. Values that never change may be one or several.
    """
    seen: set[tuple[int, int]] = set()
    twins: dict[int, int] = {}
    twins_back: dict[int, int] = {}
    todo: list[tuple[str, Any, Any]] = [("", one, other)]
    while todo:
        path, left, right = todo.pop()
        if left is right or (id(left), id(right)) in seen:
            continue
        seen.add((id(left), id(right)))
        if _may_change(left) and not (
            twins.setdefault(id(left), id(right)) == id(right)
            and twins_back.setdefault(id(right), id(left)) == id(left)
        ):
            yield f"{path}: {left!r} is one object in one of them, and several in the other"
        if type(left) is not type(right):
            yield f"{path}: {left!r}, and {right!r}"
        elif isinstance(left, _PLAIN):
            if left != right:
                yield f"{path}: {left!r}, and {right!r}"
        elif isinstance(left, _CODE):
            todo.append((f"{path}()", getattr(left, "__self__", 0), getattr(right, "__self__", 0)))
        elif isinstance(left, Mapping):
            if left.keys() != right.keys():
                yield f"{path}: keys {left.keys() ^ right.keys()!r} on one side alone"
            todo += ((f"{path}[{key!r}]", left[key], right[key]) for key in left if key in right)
        elif isinstance(left, Sequence) or hasattr(left, "appendleft"):
            if len(left) != len(right):
                yield f"{path}: {len(left)} items, and {len(right)}"
            pairs = zip(left, right, strict=False)
            todo += ((f"{path}[{index}]", *pair) for index, pair in enumerate(pairs))
        else:
            todo += (
                (f"{path}.{name}", getattr(left, name, None), getattr(right, name, None))
                for name in _fields(left)
            )


def _may_change(found: object) -> bool:
    """Whether it is an object with a life: no value, nor code."""
    if isinstance(found, (*_PLAIN, *_CODE, tuple)):
        return False
    made_as = getattr(type(found), "__dataclass_params__", None)
    return made_as is None or not made_as.frozen


def _fields(found: object) -> list[str]:
    names = list(getattr(found, "__dict__", ()))
    for kind in type(found).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        names += [slots] if isinstance(slots, str) else slots
    return [name for name in names if name not in ("__weakref__", "__dict__")]
