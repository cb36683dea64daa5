"""What the server says beside an answer: trailing metadata in gRPC, headers in REST.

Values are one line of ASCII each, whatever they were made from.
"""

from __future__ import annotations

from collections.abc import Iterable

from fanlog import attributes
from fanlog.broker.needs import Kept

Said = tuple[tuple[str, str], ...]

#: A sentence for whoever asked, about a call that is fine; there may be several.
HINT = attributes.HINT
#: How long a topic keeps messages that no subscription needs, such as `604800s`, and who says so:
#: topic, server, lake or nobody. In the lake it is for good, and no time is said.
RETENTION = attributes.RETENTION
RETENTION_BY = attributes.RETENTION_BY


def hints(sentences: Iterable[str]) -> Said:
    return tuple((HINT, _line(sentence)) for sentence in sentences)


def kept(found: Kept) -> Said:
    by = ((RETENTION_BY, found.by),)
    return by if found.seconds is None else ((RETENTION, f"{found.seconds:.15g}s"), *by)


def _line(sentence: str) -> str:
    text = " ".join(sentence.split()).encode("ascii", "backslashreplace").decode()
    return "".join(one if one.isprintable() else "?" for one in text)
