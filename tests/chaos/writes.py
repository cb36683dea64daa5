"""A short life of a log: commits of every kind. `python -m chaos.writes FOLDER SEED` writes it.

It says `answered N` on standard output when commit N has returned, as a broker answers its callers.
The same commits in the reference engine tell what must be there.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from pathlib import Path

from fanlog.log.api import Append, Commit, Log, Trim
from fanlog.log.embedded import EmbeddedLog
from fanlog.model.resources import PartitionId
from fanlog.testing.conformance import make_body

COMMITS = 24
PARTITIONS = [PartitionId(number) for number in (1, 2, 3)]
TOPIC = 7


def commits(log: Log, seed: int) -> Iterator[Commit]:
    """What to commit next, decided by a seed; `log` says where the partitions end."""
    chance = random.Random(seed)
    for number in range(1, COMMITS + 1):
        appends = [
            Append(
                topic=TOPIC,
                partition=partition,
                base_offset=log.bounds(partition).end,
                bodies=[make_body(*_messages(chance))],
            )
            for partition in chance.sample(PARTITIONS, chance.randrange(3))
        ]
        state: dict[bytes, bytes | None] = {
            b"state-%d" % chance.randrange(30): chance.randbytes(chance.randrange(1, 400))
            for _ in range(chance.randrange(6))
        }
        state |= {b"state-%d" % chance.randrange(30): None for _ in range(chance.randrange(2))}
        # Known keys only, so that deleting is always deleting.
        trims = [
            Trim(partition=partition, before=log.bounds(partition).end - chance.randrange(3))
            for partition in PARTITIONS
            if chance.random() < 0.25 and log.bounds(partition).end > 3
        ]
        yield Commit(
            sequence=log.last_sequence + 1,
            publish_time_ns=1_700_000_000_000_000_000 + number,
            appends=appends,
            state=state,
            trims=trims,
        )


def _messages(chance: random.Random) -> list[bytes]:
    sizes = [chance.choice([20, 300, 3_000, 20_000]) for _ in range(chance.randrange(1, 4))]
    return [chance.randbytes(size) for size in sizes]


def main(data_dir: Path, seed: int) -> None:
    log = EmbeddedLog(data_dir)
    for commit in commits(log, seed):
        log.commit(commit)
        sys.stdout.write(f"answered {commit.sequence}\n")
        sys.stdout.flush()
        log.prepare()
    log.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
