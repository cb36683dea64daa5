"""The methods that every compiled schema has, of whichever type, and the errors that they raise.

A path begins at `$`, the whole message: `$.items[2].count`. Definitions are spoken of in the same
way, beginning at `$` as well.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import orjson

from fanlog import limits
from fanlog.errors import InvalidArgument
from fanlog.model.json_value import Json
from fanlog.model.names import shown
from fanlog.model.resources import Encoding, SchemaType

#: Turns the data of a message written with one revision into that of another.
Transform = Callable[[bytes], bytes]


class Mismatch(ValueError):
    """Data does not conform to a schema; `path` says where, `problem` names the expected value."""

    def __init__(self, problem: str, path: tuple[str | int, ...] = ()) -> None:
        super().__init__(problem)
        self.problem = problem
        self.path = path

    def below(self, step: str | int) -> Mismatch:
        """Say that it happened below `step`; containers call this as the error passes them."""
        self.path = (step, *self.path)
        return self

    def __str__(self) -> str:
        return f"{path_of(self.path)}: {self.problem}"


class Impossible(ValueError):
    """A message of one revision cannot be turned into one of another; the sentence says why."""


class Long(Impossible):
    """It may take long to find out, and nothing else can run meanwhile: ask another process."""


class Compiled(Protocol):
    """A schema ready to be used. Immutable, and safe to share."""

    @property
    def type(self) -> SchemaType: ...

    def check_encoding(self, encoding: Encoding) -> None:
        """Raises InvalidArgument if messages of this schema have no such encoding."""

    @property
    def size_bytes(self) -> int:
        """About how much memory it holds."""

    @property
    def short_bytes(self) -> int:
        """Messages up to so many bytes are checked quickly enough to do it on the event loop."""

    def is_long(self, data: bytes) -> bool:
        """Whether the data may take long to be checked, and nothing else can run meanwhile."""

    def validate(self, data: bytes, encoding: Encoding) -> int:
        """Check the data of one message, and give about how many steps that took.

        Raises:
            Mismatch: It does not conform, or checking it takes more steps than a message may.
        """

    def to_json(self, data: bytes, encoding: Encoding) -> bytes:
        """The data of a message, which is valid, as JSON for people.

        Raises:
            Impossible: It cannot be written so.
        """

    def breaks(self, writer: Any, budget: Any = None) -> list[str]:
        """List why this schema cannot read some messages that `writer`, of the same type, allows.

        Raises:
            InvalidArgument: The comparison takes more steps than the budget has.
        """

    def transform_from(
        self, writer: Any, encoding: Encoding, *, is_patient: bool = True
    ) -> Transform:
        """Give a function that turns messages of `writer` into messages of this schema.

        Args:
            writer: A schema of the same type.
            encoding: Of the messages.
            is_patient: Otherwise the function raises Long for a message that may take long.

        Raises:
            Impossible: No message can be transformed. The function raises it for a single message.
        """


def check_nesting(source: Json, what: str) -> None:
    """Raises InvalidArgument if JSON is nested deeper than a definition may be."""
    level = [[source]]
    for _ in range(limits.SCHEMA_NESTING_MAX + 1):
        level = [
            list(part.values()) if isinstance(part, dict) else part
            for one in level
            for part in one
            if isinstance(part, dict | list)
        ]
        if not level:
            return
    raise InvalidArgument(f"{what} is nested more than {limits.SCHEMA_NESTING_MAX} levels deep")


def json_text(value: object) -> bytes:
    """Write a value as JSON; raises Impossible."""
    try:
        return orjson.dumps(value)
    except TypeError as error:
        # It writes less deep than it reads.
        raise Impossible(f"the message cannot be written: {error}") from None


def path_of(path: tuple[str | int, ...]) -> str:
    parts = ["$"]
    for step in path:
        if isinstance(step, int):
            parts.append(f"[{step}]")
        elif step.isidentifier():
            parts.append(f".{step}")
        else:
            parts.append(f"[{shown(step)}]")
    return "".join(parts)


def found(value: object) -> str:
    """Describe a JSON value for an error sentence."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f"the string {shown(value)}"
    if isinstance(value, int | float):
        return f"the number {value}"
    return "an array" if isinstance(value, list) else "an object"
