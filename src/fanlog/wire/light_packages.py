"""Packages whose modules are imported without running the package's own `__init__` first."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.machinery import ModuleSpec
from importlib.util import find_spec, module_from_spec
from threading import RLock
from types import ModuleType


def enter_lightly(name: str) -> None:
    """Have `name` run its `__init__` when one of its own names is first asked for.

    Its modules can be imported at once. A program that uses the package as usual, before or
    afterwards, sees no difference: `from google.pubsub_v1 import PublisherClient` runs it.
    """
    if name in sys.modules:
        return
    spec = find_spec(name)
    if spec is None or spec.loader is None:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)
    package = module_from_spec(spec)
    vars(package)["__getattr__"] = _Opening(package, spec)
    sys.modules[name] = package
    parent, _, own = name.rpartition(".")
    if parent:
        setattr(sys.modules[parent], own, package)


class _Opening:
    """The `__getattr__` of a package that has not run: runs it, once."""

    def __init__(self, package: ModuleType, spec: ModuleSpec) -> None:
        self._package = package
        self._spec = spec
        self._lock = RLock()

    def __call__(self, name: str) -> object:
        if name.startswith("__"):
            # The import system asks for these, and does without.
            raise AttributeError(f"module {self._spec.name!r} has no attribute {name!r}")
        if find_spec(f"{self._spec.name}.{name}") is not None:
            # `from package import module`: nothing of the package itself.
            return import_module(f"{self._spec.name}.{name}")
        names = vars(self._package)
        with self._lock:
            if names.get("__getattr__") is self:
                del names["__getattr__"]
                assert self._spec.loader is not None
                self._spec.loader.exec_module(self._package)
        return getattr(self._package, name)
