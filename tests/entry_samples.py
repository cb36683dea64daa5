"""One entry of each kind, for tests of their bytes."""

from __future__ import annotations

from fanlog.log.api import Append, Commit, Trim
from fanlog.log.encoded import EncodedCommit, encode_commit
from fanlog.log.replicated.api import Member
from fanlog.log.replicated.bodies import (
    Body,
    Carried,
    Checkpoint,
    HandOver,
    Renewal,
    SnapshotPiece,
    StageEnd,
    StagePiece,
    StagesRemoved,
    TakeOver,
)
from fanlog.log.replicated.entries import NO_CHAIN, Head
from fanlog.testing.author import ONE, START_NS, TOPIC, TWO, make_body

CARD = b'{"name":"north"}'
CHAIN = bytes(range(100, 116))
IDENTITY = bytes(range(16))
NONCE = bytes(range(200, 216))


def make_commit(
    sequence: int, *messages: bytes, base_offset: int = 0, publish_time_ns: int = START_NS
) -> EncodedCommit:
    """A commit of messages, a state value, a removed key and two trims; whole, not lazy."""
    bodies = [make_body(*messages)] if messages else []
    appends = [Append(topic=TOPIC, partition=ONE, base_offset=base_offset, bodies=bodies)]
    commit = Commit(
        sequence=sequence,
        publish_time_ns=publish_time_ns,
        appends=appends if bodies else [],
        state={b"k": b"value", b"gone": None},
        trims=[Trim(partition=TWO, before=3), Trim(partition=TWO, before=0, dropped=True)],
    )
    encoded = encode_commit(commit)
    return encoded._replace(batches=list(encoded.batches), state=list(encoded.state))


def samples() -> dict[str, tuple[Head, Body]]:
    head = Head(17, 40, 3, CHAIN)
    commit = make_commit(4, b"first", b"second", base_offset=7)
    batches, state = list(commit.batches), list(commit.state)
    assert state[0][1] is not None
    checkpoint = Checkpoint(
        identity=IDENTITY, publish_time_ns=START_NS, total_bytes=1 << 40, nonce=NONCE, card=CARD
    )
    piece = SnapshotPiece(
        begin=39, first=b"", until=b"\x01k\x00", rows=((ONE, 7, 9),), state=((b"k", state[0][1]),)
    )
    carried = Carried(begin=40, up_to=9, first=b"", until=b"", batches=(batches[0],))
    return {
        "take-over": (
            Head(17, -1, 0, NO_CHAIN),
            TakeOver(identity=IDENTITY, nonce=NONCE, card=CARD),
        ),
        "commit": (Head(17, 40, 4, CHAIN), commit),
        "renewal": (head, Renewal(members=(Member(CARD, 38), Member(b"{}", 0)))),
        "hand-over": (head, HandOver(successor="söuth")),
        "checkpoint": (head, checkpoint),
        "snapshot": (head, piece),
        "carried": (head, carried),
        "stage-piece": (head, StagePiece(stage_id="s1", position=5, content=b"bytes")),
        "stage-end": (head, StageEnd(stage_id="s1", position=10, said=b"{}")),
        "stages-removed": (head, StagesRemoved(stage_ids=("s1", "s2"))),
    }
