"""Hard state as text: two states that say the same are the same."""

from __future__ import annotations

from collections.abc import Iterator

from fanlog.core.cursor import Cursor
from fanlog.core.hard_state import HardState
from fanlog.core.share import Share


def hard_lines(hard: HardState) -> list[str]:
    """All that must survive the process, one line each, in an order of its own."""
    catalog = hard.catalog
    lines = [repr(resource) for resource in catalog.topics()]
    lines += [repr(resource) for resource in catalog.subscriptions()]
    for snapshot in catalog.snapshots():
        lines.append(repr(snapshot))
        lines += [
            f"snapshot {snapshot.id} {partition} {_cursor(hard.cursor_of(snapshot, partition))}"
            for partition in snapshot.partitions
        ]
    lines += [f"former {topic!r}" for topic in catalog.former_topics()]
    for share in hard.shares():
        lines += _share_lines(share)
    for schema_name in catalog.schemas.names("", ""):
        schema = catalog.schemas.schema(schema_name)
        lines += [repr(schema), *map(repr, catalog.schemas.revisions(schema.id))]
    lines += [repr(policy) for policy in catalog.policies()]
    for window in hard.dedup_windows():
        lines += [
            f"dedup {window.partition} {digest.hex()} {offset} {expires_s}"
            for digest, (offset, expires_s) in window._seen.items()
        ]
    sinks = hard.sinks
    for kept in (sinks._queries, sinks._committing, sinks._progress):
        lines += [f"sink {digest.hex()} {value!r}" for digest, value in kept.items()]
    schedules = hard.schedules
    lines += [repr(schedules.find(name)) for name in schedules.names()]
    lines += [f"{name} {schedules.progress(name)!r}" for name in schedules.names()]
    lines += [repr(hard.alerts.find(name)) for name in hard.alerts.names()]
    lines += [f"{name} {hard.alerts.state(name)!r}" for name in hard.alerts.names()]
    lines += [repr(hard.lake), *map(repr, hard.archived.values())]
    lines += [f"trimmed {partition} {to}" for partition, to in hard.trimmed.items()]
    for partition, by_addressee in hard.addresses._by_partition.items():
        lines += [f"addressed {partition} {to} {list(bits)}" for to, bits in by_addressee.items()]
    lines += [f"activity {owner} {last_s}" for owner, last_s in hard.activity.items()]
    return sorted(lines)


def _share_lines(share: Share) -> Iterator[str]:
    who = f"share {share.settings.id} {share.partition}"
    yield f"{who} cursor {_cursor(share.cursor)} fence {share.state.fence}"
    if share.settings.dead_letter is not None:
        for number, counts in share.state.attempts._chunks.items():
            yield f"{who} attempts {number} {sorted(counts.items())}"
    if share.settings.enable_exactly_once:
        for (generation, part), held in share.state.held.items():
            assert held.offsets is not None
            yield f"{who} held {generation} {part} {held.deadline_s} {list(held.offsets)}"


def _cursor(cursor: Cursor) -> str:
    chunks = {number: list(bits) for number, bits in sorted(cursor.chunks.items())}
    reopened = {n: list(chunk.bits) for n, chunk in sorted(cursor.reopened.chunks.items())}
    return f"{cursor.mark} {chunks} {reopened}"


def difference(left: list[str], right: list[str]) -> str:
    """The first lines that only one of them has."""
    only_left = [line for line in left if line not in right][:2]
    only_right = [line for line in right if line not in left][:2]
    return f"{only_left} against {only_right}"
