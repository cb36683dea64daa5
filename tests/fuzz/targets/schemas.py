"""Definitions of schemas, messages against them, what one revision makes of another's; policies."""

from __future__ import annotations

from fanlog.core import records
from fanlog.core.iam import Binding, Policy
from fanlog.core.records import PolicyRecord
from fanlog.errors import FanlogError
from fanlog.model.resources import Encoding, SchemaType
from fanlog.schema import Compiled, Impossible, Mismatch, breaking_changes, compile_schema
from fuzz.bounds import SENTENCE_MAX, Target, refusal
from fuzz.draw import Draw

TYPES: tuple[SchemaType, ...] = ("AVRO", "PROTOCOL_BUFFER", "JSON")
ENCODINGS: tuple[Encoding, ...] = ("JSON", "BINARY")
LEVELS = ("BACKWARD", "FORWARD", "FULL", "FULL_TRANSITIVE")
MEMBERS_MAX = 6


def schema(data: bytes) -> None:
    """A definition is refused with a sentence or compiled; what it says of messages holds.

    A message of one revision that is turned into one of another conforms to that.
    """
    draw = Draw(data)
    kind, encoding = draw.pick(TYPES), draw.pick(ENCODINGS)
    compiled = [one for one in (_compiled(kind, draw.text()) for _ in range(2)) if one is not None]
    message = draw.rest()
    for one in compiled:
        _conforms(one, message, encoding)
    if len(compiled) < 2:
        return
    reader, writer = compiled
    for level in LEVELS:
        for sentence in breaking_changes(level, reader, [("0", writer)]):
            _check_sentence(sentence)
    assert not reader.breaks(reader), "a schema reads what it writes itself"
    if _conforms(writer, message, encoding):
        _transformed(reader, writer, message, encoding)


def _compiled(kind: SchemaType, definition: str) -> Compiled | None:
    try:
        return compile_schema(kind, definition)
    except FanlogError as error:
        refusal(error)
        return None


def _conforms(schema: Compiled, message: bytes, encoding: Encoding) -> bool:
    try:
        schema.check_encoding(encoding)
        schema.validate(message, encoding)
    except FanlogError as error:
        refusal(error)
        return False
    except Mismatch as error:
        _check_sentence(str(error))
        return False
    return True


def _transformed(reader: Compiled, writer: Compiled, message: bytes, encoding: Encoding) -> None:
    try:
        made = reader.transform_from(writer, encoding)(message)
    except Impossible as error:
        _check_sentence(str(error))
        return
    assert _conforms(reader, made, encoding), f"{message!r} became {made!r}"


def _check_sentence(text: str) -> None:
    assert 0 < len(text) <= SENTENCE_MAX, len(text)


def policy(data: bytes) -> None:
    """Bindings are refused with a sentence, or kept as they mean; they survive the disk."""
    draw = Draw(data)
    bindings = []
    while not draw.is_empty and len(bindings) < MEMBERS_MAX:
        role, members = draw.text(), [draw.text() for _ in range(draw.below(MEMBERS_MAX))]
        bindings.append(Binding(role=role, members=tuple(members)))
    before = Policy(id=7, revision=3)
    try:
        after = before.replace(bindings, draw.pick((b"", before.etag)))
    except FanlogError as error:
        refusal(error)
        return
    assert after.revision == before.revision + 1
    assert after.etag != before.etag
    pairs = {(b.role, member) for b in bindings for member in b.members}
    assert {(b.role, member) for b in after.bindings for member in b.members} == pairs
    assert after.replace(after.bindings, after.etag).bindings == after.bindings
    record = PolicyRecord(after.id, after)
    value = record.value()
    assert value is not None
    assert records.decode(record.key(), value) == record


TARGETS = (
    Target(name="schema", run=schema, memory_max=4 * 1024 * 1024),
    Target(name="policy", run=policy),
)
