"""Schemas: definitions compiled once, messages checked fast, revisions compared and bridged."""

from fanlog.schema.compat import breaking_changes
from fanlog.schema.compiled import Compiled, Impossible, Long, Mismatch, Transform
from fanlog.schema.compiler import compile_schema

__all__ = [
    "Compiled",
    "Impossible",
    "Long",
    "Mismatch",
    "Transform",
    "breaking_changes",
    "compile_schema",
]
