"""Questions about definitions and messages that strangers wrote, answered from nothing but them.

The caller need not have anything compiled, so that the answer may come from another process.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from fanlog.model.resources import Compatibility, Encoding, SchemaType
from fanlog.schema.compat import breaking_changes
from fanlog.schema.compiled import Impossible, Mismatch
from fanlog.schema.compiler import compile_schema


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """Something to find out, and all that is needed for it."""

    #: Whether a definition is valid; why it may not follow earlier ones; why messages do not
    #: conform to it; messages of an earlier definition, transformed to this one.
    about: Literal["definition", "breaks", "messages", "transformed"]
    type: SchemaType
    definition: str
    level: Compatibility = "NONE"
    #: Revision ids and definitions, the latest last.
    earlier: Sequence[tuple[str, str]] = ()
    encoding: Encoding = "JSON"
    messages: Sequence[bytes] = ()

    @property
    def size(self) -> int:
        """How much there is to read."""
        earlier = sum(len(text) for _, text in self.earlier)
        return len(self.definition) + earlier + sum(map(len, self.messages))


@dataclass(frozen=True, slots=True)
class Answer:
    """The findings: sentences, or none where all is well; and the results."""

    sentences: Sequence[str | None] = ()
    made: Sequence[bytes] = ()


def answer(question: Question) -> Answer:
    """Answer a question.

    Raises:
        InvalidArgument: A definition is wrong, or takes more than it may.
    """
    new = compile_schema(question.type, question.definition)
    if question.about == "definition":
        return Answer()
    if question.about == "breaks":
        old = [(name, compile_schema(question.type, text)) for name, text in question.earlier]
        return Answer(breaking_changes(question.level, new, old))
    new.check_encoding(question.encoding)
    sentences: list[str | None] = []
    made: list[bytes] = []
    if question.about == "transformed":
        [(_, text)] = question.earlier
        writer = compile_schema(question.type, text)
        for data in question.messages:
            try:
                writer.validate(data, question.encoding)
                made.append(new.transform_from(writer, question.encoding)(data))
                sentences.append(None)
            except (Mismatch, Impossible) as error:
                made.append(b"")
                sentences.append(str(error))
        return Answer(sentences, made)
    for data in question.messages:
        try:
            new.validate(data, question.encoding)
            sentences.append(None)
        except Mismatch as error:
            sentences.append(str(error))
    return Answer(sentences)
