"""Dead letters, flattened: from the table `messages` to the table `dead_letters`, each once.

A dead letter says in its attributes where it comes from and why it is one; here those are columns.
Only the broker's seal makes a message a dead letter: any publisher can set such attributes.
The application of the second table is the log, as that of the first; the number of a commit is the
commit sequence of the log up to which the first was looked through.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc

from fanlog import times
from fanlog.lake import commits
from fanlog.lake.archive import archived_sequence
from fanlog.lake.files import DataFile, write_rows
from fanlog.lake.location import Location
from fanlog.lake.tables import DEAD_LETTERS, MESSAGES, SEAL, TIME, ensure_table, open_table
from fanlog.model import attributes as said_by

#: Bytes of letters that are held before they are written.
_HELD_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class LettersCollected:
    """How far dead letters were looked for."""

    #: Found and added by this call.
    letters: int
    #: Commits of the log up to and with this one were looked through.
    sequence: int


def collect_letters(
    location: Location, log_id: str, *, after: int = 0, is_noted: bool = False
) -> LettersCollected:
    """Add the dead letters that were archived since the last time.

    Args:
        after: Commits up to and with this one are known to have none that the table has not.
        is_noted: Write down how far it went, also when nothing was found.

    Raises:
        CommitLost: Another pipeline came first; nothing changed.
        LakeError: The lake cannot be read or written.
    """
    ensure_table(location, DEAD_LETTERS)
    last = commits.last_version(location, DEAD_LETTERS, log_id) or 0
    to = archived_sequence(location, log_id)
    # A lake that was replaced by an older one has less than was looked at.
    after = last if after > to else max(after, last)
    if to <= after:
        return LettersCollected(0, after)
    files = _write_letters(location, after, to)
    count = sum(file.count for file in files)
    if files or is_noted:
        commits.add_files(location, DEAD_LETTERS, files, app_id=log_id, app_version=to, after=last)
    return LettersCollected(count, to)


def letters_of(messages: pa.Table) -> pa.Table:
    """The dead letters among messages, flattened; without the column of dates."""
    attributes = messages["attributes"].combine_chunks()
    subscriptions = _attribute(attributes, said_by.LETTER_SUBSCRIPTION)
    projects = _attribute(attributes, said_by.LETTER_PROJECT)
    says_so = pc.and_(pc.is_valid(subscriptions), pc.is_valid(projects))
    seals = messages[SEAL.name].combine_chunks()
    # Messages from before there were seals are letters if their attributes say so.
    is_sealed = pc.match_substring_regex(pc.fill_null(seals, "letter"), r"\bletter\b")
    is_letter = pc.and_(says_so, is_sealed)
    found = messages.filter(is_letter)
    said = found["attributes"].combine_chunks()
    names = pc.binary_join_element_wise(
        pa.scalar("projects/"),
        _attribute(said, said_by.LETTER_PROJECT),
        pa.scalar("/subscriptions/"),
        _attribute(said, said_by.LETTER_SUBSCRIPTION),
        "",
    )
    made = {name: found[name] for name in found.column_names} | {
        "subscription": names,
        "original_topic": _text(said, said_by.SOURCE_TOPIC),
        "original_message_id": _text(said, said_by.SOURCE_ID),
        "original_publish_time": _times(_attribute(said, said_by.LETTER_PUBLISH_TIME)),
        "delivery_attempts": _numbers(_attribute(said, said_by.LETTER_ATTEMPTS)),
        "reason": _text(said, said_by.LETTER_REASON),
    }
    schema = DEAD_LETTERS.file_schema
    return pa.table([made[name] for name in schema.names], names=schema.names).cast(schema)


def _write_letters(location: Location, after: int, to: int) -> list[DataFile]:
    attempt = secrets.token_hex(8)
    files: list[DataFile] = []
    held: list[pa.Table] = []
    sequence = pc.field("sequence")
    dataset = open_table(location, MESSAGES).to_pyarrow_dataset()
    columns = [name for name in MESSAGES.schema.names if name != "date"]
    scan = dataset.scanner(columns=columns, filter=(sequence > after) & (sequence <= to))
    for batch in scan.to_batches():
        held.append(letters_of(pa.Table.from_batches([batch])))
        if sum(one.nbytes for one in held) > _HELD_BYTES:
            files += _flush(location, held, attempt, len(files))
            held = []
    return files + _flush(location, held, attempt, len(files))


def _flush(location: Location, held: list[pa.Table], attempt: str, number: int) -> list[DataFile]:
    rows = pa.concat_tables(held) if held else None
    if rows is None or not rows.num_rows:
        return []
    return write_rows(location, DEAD_LETTERS, rows, attempt=attempt, name=str(number))


def _attribute(attributes: pa.Array, name: str) -> pa.Array:
    return pc.map_lookup(attributes, pa.scalar(name), "first")


def _text(attributes: pa.Array, name: str) -> pa.Array:
    return pc.fill_null(_attribute(attributes, name), "")


def _numbers(texts: pa.Array) -> pa.Array:
    """Numbers of texts; other texts are 0: any publisher may set such an attribute."""
    is_number = pc.match_substring_regex(texts, r"^\d{1,9}$")
    return pc.cast(pc.if_else(pc.fill_null(is_number, False), texts, "0"), pa.int64())


def _times(texts: pa.Array) -> pa.Array:
    """Times of texts, to the microsecond; a text that is none gives null."""
    is_time = pc.fill_null(pc.match_substring_regex(texts, f"^{times.PATTERN}$"), False)
    upper = pc.ascii_upper(texts)
    cut = pc.replace_substring_regex(upper, r"(\.[0-9]{1,6})[0-9]*([Z+-])", r"\1\2")
    known = pc.if_else(is_time, cut, pa.scalar(None, pa.string()))
    try:
        return pc.cast(known, TIME)
    except pa.ArrowInvalid:
        # A thirteenth month somewhere: the others are times all the same.
        return pa.array([_time(text) for text in known.to_pylist()], TIME)


def _time(text: str | None) -> datetime | None:
    try:
        return None if text is None else times.parse(text)
    except ValueError:
        return None
