"""Bits flipped in the data file: never wrong data, never a crash, always a sentence."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import struct
import subprocess
import sys
import urllib.request
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from acceptance.served import FANLOG, PATIENCE_S, PORTS, Served, clean_environ
from chaos.flips import flip
from chaos.sample import TOPICS, make_sample, read_content
from crash.world import Clients, subscription_name
from fanlog.log import folder
from fanlog.log.embedded import EmbeddedLog
from fanlog.log.folder import DATA_NAME
from fanlog.model.ids import message_id
from fanlog.model.resources import PartitionId
from fanlog.testing.damage import damage_batch, damage_state

pytestmark = [
    pytest.mark.xdist_group("flips"),
    pytest.mark.filterwarnings("ignore:The return_immediately flag is deprecated"),
]

SEED = 4
FLIPS = 100
NIGHTLY_FLIPS = 4_000
PAGE_BYTES = 4_096
#: Where LMDB's header of a page ends, and where a meta page ends.
HEAD_BYTES, META_BYTES = 16, 152
DAMAGED = re.compile(r"is damaged: .*`fanlog doctor --salvage`", re.DOTALL)
TESTS = Path(__file__).resolve().parent.parent
KINDS = {1: "branch", 2: "leaf", 4: "batch", 8: "meta"}


@pytest.fixture(scope="module")
def sample(tmp_path_factory) -> tuple[Path, dict[str, bytes]]:
    """A folder that a server wrote; message ids and data."""
    place = tmp_path_factory.mktemp("sample")
    return place / "data", make_sample(place / "data", place / "server.log", SEED)


@pytest.fixture
def copy(sample, tmp_path) -> Path:
    """A copy of the sample, to be damaged."""
    shutil.copytree(sample[0], tmp_path / "data")
    return tmp_path / "data"


# Many flips, on the engine.


def pages_by_kind(data_dir: Path) -> dict[str, list[int]]:
    content = (data_dir / DATA_NAME).read_bytes()
    kinds: dict[str, list[int]] = defaultdict(list)
    for page in range(len(content) // PAGE_BYTES):
        number, _, flags = struct.unpack_from("=QHH", content, page * PAGE_BYTES)
        # Pages inside a large batch have no header; free ones keep that of their last life.
        kinds[KINDS.get(flags, "inside") if number == page else "inside"].append(page)
    return kinds


def choose_flips(data_dir: Path, seed: int, count: int) -> list[dict[str, Any]]:
    """Flips of every kind of page, half of them where LMDB's own structure is."""
    chance, kinds = random.Random(seed), pages_by_kind(data_dir)
    flips = []
    for number in range(count):
        kind = sorted(kinds)[number % len(kinds)]
        end = META_BYTES if kind == "meta" else PAGE_BYTES
        # The heads of nodes follow no rule of place; the page's own and its pointers come first.
        start = chance.randrange(chance.choice([4 * HEAD_BYTES, end]))
        position = chance.choice(kinds[kind]) * PAGE_BYTES + start
        flips.append({"kind": kind, "position": position, "bit": chance.randrange(8)})
    return flips


def run_flips(data_dir: Path, flips: list[dict[str, Any]]) -> list[dict[str, Any]]:
    done = subprocess.run(
        [sys.executable, "-m", "chaos.flips", str(data_dir)],
        input="".join(json.dumps(one) + "\n" for one in flips),
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": str(TESTS)},
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def table(outcomes: list[dict[str, Any]]) -> str:
    counts = Counter((one["kind"], one.get("outcome", "-")) for one in outcomes)
    rows = [f"{kind:8} {outcome:12} {count:6}" for (kind, outcome), count in sorted(counts.items())]
    return "\n".join(["page     outcome       count", *rows])


def check_flips(data_dir: Path, seed: int, count: int) -> None:
    outcomes = run_flips(data_dir, choose_flips(data_dir, seed, count))
    sys.stdout.write(table(outcomes) + "\n")
    log = EmbeddedLog(data_dir)
    batch_count = sum(len(found) for *_, found in read_content(log).partitions.values())
    log.close()
    assert len(outcomes) == count
    for one in outcomes:
        assert "failure" not in one, one
        assert one["outcome"] in ("untouched", "quarantined", "stopped"), one
        if one["outcome"] != "untouched":
            assert not one["healthy"], f"doctor did not notice: {one}"
        if one["outcome"] == "stopped":
            assert DAMAGED.search(one["sentence"]), one
        if not one["healthy"]:
            assert one["complaint"], one
            assert one["rescue"] == "", one
            # One bit, one batch at most.
            assert one["kept"] >= batch_count - 1, one
    # Enough happened for the rest to mean something.
    assert {one["outcome"] for one in outcomes} == {"untouched", "quarantined", "stopped"}


@pytest.mark.slow
def test_no_flip_crashes_the_engine_or_gives_wrong_data(sample):
    check_flips(sample[0], SEED, FLIPS)


@pytest.mark.nightly
@pytest.mark.timeout(3_000)
def test_no_flip_of_thousands(sample):
    check_flips(sample[0], SEED + 1, NIGHTLY_FLIPS)


# Some, through the real server.


def drain(served: Served) -> dict[str, bytes]:
    """Everything that comes to the first subscription of each topic, until nothing does."""
    clients = Clients(served.endpoint)
    came: dict[str, bytes] = {}
    for topic in TOPICS:
        if topic == "gone":
            continue
        name = subscription_name(f"{topic}-0")
        while received := clients.subscriber.pull(
            request={"subscription": name, "max_messages": 1_000, "return_immediately": True},
            retry=None,
        ).received_messages:
            for one in received:
                came[one.message.message_id] = one.message.data
            clients.subscriber.acknowledge(
                subscription=name, ack_ids=[one.ack_id for one in received], retry=None
            )
    clients.channel.close()
    return came


def refuse_to_serve(data_dir: Path) -> str:
    """Start a server that must not start; its last words."""
    done = subprocess.run(
        [*FANLOG, "serve", *PORTS, "--data-dir", str(data_dir)],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        env=clean_environ(),
    )
    assert done.returncode == 1, (done.returncode, done.stdout, done.stderr)
    assert "Traceback" not in done.stderr
    assert "ready" not in done.stdout
    return done.stderr


def doctor(data_dir: Path, *flags: str, status: int) -> str:
    done = subprocess.run(
        [*FANLOG, "doctor", "--data-dir", str(data_dir), *flags],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        env=clean_environ(),
    )
    assert done.returncode == status, (done.returncode, done.stdout, done.stderr)
    return done.stdout


def batches_of(data_dir: Path) -> list[tuple[PartitionId, int, int]]:
    """Partition, first and end offset of every batch, from the last commit back."""
    log = EmbeddedLog(data_dir)
    ends = {partition: bounds.end for partition, bounds in log.partitions().items()}
    found = []
    for position in reversed(log.positions(0, limit=1_000_000)):
        found.append((position.partition, position.base_offset, ends[position.partition]))
        ends[position.partition] = position.base_offset
    log.close()
    return found


def test_a_damaged_batch_is_named_and_the_rest_is_served(sample, copy, serve):
    published = sample[1]
    chance = random.Random(SEED)
    partition, base, end = chance.choice(
        [batch for batch in batches_of(copy) if message_id(*batch[:2]) in published]
    )
    lost = {message_id(partition, offset) for offset in range(base, end)}
    damage_batch(copy, partition, base, index=chance.randrange(-20, 20))
    where = f"partition {partition} offsets {base} to {end - 1}"
    assert where in doctor(copy, status=1)

    served = serve()
    served.start()
    assert drain(served) == {id_: data for id_, data in published.items() if id_ not in lost}
    named = f"action=batch_quarantined partition={partition} base_offset={base} count={end - base}"
    assert named in served.log_path.read_text()
    with urllib.request.urlopen(f"http://{served.http}/metrics") as response:
        metrics = response.read().decode()
    assert float(metrics.split("\nfanlog_damaged_batches_total ")[1].split()[0]) >= 1
    # The rest of its life is an ordinary one.
    clients = Clients(served.endpoint)
    name = clients.publisher.publish(
        topic="projects/crash/topics/small", messages=[{"data": b"after"}]
    ).message_ids[0]
    assert drain(served)[name] == b"after"
    clients.channel.close()
    assert served.stop()[0] == 0


def flip_leaf(data_dir: Path) -> None:
    """The number of a page that a tree leads to."""
    before = folder.page_problems(data_dir)
    assert before == []
    for page in pages_by_kind(data_dir)["leaf"]:
        flip(data_dir, page * PAGE_BYTES + 12, 2)
        if folder.page_problems(data_dir):
            return
    raise AssertionError("no leaf is in use")


def flip_newest_meta(data_dir: Path) -> None:
    """Its transaction number: LMDB would go back by a commit."""
    content = (data_dir / DATA_NAME).read_bytes()
    numbers = [struct.unpack_from("=Q", content, page * PAGE_BYTES + 144)[0] for page in (0, 1)]
    newest = numbers.index(max(numbers))
    bit = max(bit for bit in range(64) if numbers[newest] >> bit & 1)
    flip(data_dir, newest * PAGE_BYTES + 144 + bit // 8, bit % 8)


def flip_state(data_dir: Path) -> None:
    log = EmbeddedLog(data_dir)
    keys = [key for key, _ in log.state()]
    log.close()
    damage_state(data_dir, random.Random(SEED).choice(keys), index=-1)


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        (flip_leaf, "is damaged: "),
        (flip_newest_meta, "which LMDB believes, leads to commit"),
        (flip_state, "is damaged: state under the key "),
    ],
)
def test_damaged_pages_or_state_stop_the_server_and_salvage_brings_all_messages_back(
    sample, copy, serve, tmp_path, damage: Callable[[Path], None], sentence: str
):
    published = sample[1]
    damage(copy)
    before = (copy / DATA_NAME).read_bytes()
    words = refuse_to_serve(copy)
    assert sentence in words
    assert "Stop the broker and run `fanlog doctor --salvage`" in words
    doctor(copy, status=1)
    doctor(copy, "--salvage", str(tmp_path / "saved"), status=0)
    assert (copy / DATA_NAME).read_bytes() == before

    served = serve("saved")
    served.start()
    assert drain(served) == published
    assert served.stop()[0] == 0
