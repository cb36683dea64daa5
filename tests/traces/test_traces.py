"""Golden traces: the documented behaviours as rows of verbs and replies, run on a real share.

    share ordering=key deadline=10          what is tried, on the first line
    now 0   publish a b key=k  -> 0 1       message names, one batch; the offsets they got
    now 1   pull max=10        -> a#1 b#1   deliveries: a#2 is the second delivery of a
    now 2   nack b#1           -> 1 outstanding, 1 waiting
    now 2   ack a#1            -> floor 1 | head 1

A reply says what became of the whole share. After `|` come the records, when a row cares about
them: the changed keys of hard state in the order they were decided. `#` begins a comment; blank
lines are free. Options of `share`: ordering=key|strict, exactly-once, at-most-once, attempts=N,
retry=MIN..MAX or retry=first-immediate, deadline=S. Options of `pull`: max=N, by=NAME (who holds
several answers), messages=N and bytes=N (its window, told once), client=NAME (whose stream it is,
told once). `give-back by=NAME after=a#1`: of what NAME was leased, that answer was the last that
was written to it. `claim a#1`: at most once, it is about to be sent. Options of `nack`: delay=S,
uncounted, terminal. `at-most-once VALUE` sets the label.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from pyroaring import BitMap64

from fanlog.core.cursor import Cursor
from fanlog.core.flow import Credit
from fanlog.core.records import AttemptsChunk, CursorChunk, CursorHead, ShareRecord
from fanlog.core.redelivery import Nack
from fanlog.core.share import Decision
from fanlog.model.attributes import LABEL_DELIVERY, LABEL_RETRY
from fanlog.model.resources import RetryPolicy
from unit.core.world import Id, World, subscription

TRACES = sorted(Path(__file__).parent.glob("*.trace"))
ROW = re.compile(r"now\s+(?P<now>[\d.]+)\s+(?P<verb>\S+)\s*(?P<rest>.*?)\s*->\s*(?P<reply>.*)")


class Trace:
    """One trace being run."""

    def __init__(self, head: str) -> None:
        options = dict(word.partition("=")[::2] for word in head.split()[1:])
        retry = options.get("retry", "")
        least, _, most = retry.partition("..")
        self.deadline_s = float(options.get("deadline", 10))
        self.world = World(
            subscription(
                options.get("ordering", "none"),  # type: ignore[arg-type]
                exactly_once="exactly-once" in options,
                attempts=int(options["attempts"]) if "attempts" in options else None,
                retry=RetryPolicy(minimum_backoff_s=float(least), maximum_backoff_s=float(most))
                if most
                else None,
                labels=(
                    {LABEL_DELIVERY: "at-most-once"}
                    if "at-most-once" in options
                    else {LABEL_RETRY: retry}
                    if retry and not most
                    else None
                ),
            )
        )
        self.names: list[str] = []
        self.keys: dict[str, int] = {}
        self.deliveries: dict[str, Id] = {}
        self.consumers: dict[str, Credit] = {}
        self.snapshots: dict[str, Cursor] = {}

    def run(self, now: float, verb: str, rest: str) -> tuple[str, str]:
        """The reply and the records of one row."""
        words = [word for word in rest.split() if "=" not in word]
        options = dict(word.split("=") for word in rest.split() if "=" in word)
        share, world = self.world.share, self.world
        before = len(world.letters)
        match verb:
            case "publish":
                return self.publish(words, options.get("key", "")), ""
            case "pull":
                return self.pull(now, options), ""
            case "ack":
                decision = world.ack(now, self.ids(words), partial="partial" in words)
                reply = f"floor {share.cursor.floor}" if decision.count else "nothing changed"
                return self.refused(decision) or reply, self.records(decision)
            case "nack":
                nack = _nack(words, options)
                named = [word for word in words if "#" in word]
                partial = "partial" in words
                decision = world.nack(now, self.ids(named), partial=partial, nack=nack)
            case "claim":
                decision = world.claim(now, self.ids(words))
            case "at-most-once":
                labels = {LABEL_DELIVERY: words[0]}
                decision = world.configure(replace(world.settings, labels=labels))
            case "extend":
                decision = world.modify(now, self.ids(words), float(options["by"]))
            case "expire":
                decision = world.expire(now)
            case "give-back":
                written = self.deliveries[options["after"]][0] if "after" in options else 0
                consumer = self.consumers[options["by"]]
                decision = world.decided(share.give_back(now, consumer, written))
            case "forwarded":
                decision = world.decided(share.acknowledge_forwarded(self.offsets(words)))
            case "not-forwarded":
                decision = world.decided(share.return_unforwarded(now, self.offsets(words)))
            case "seek" if words[0] in self.snapshots:
                snapshot, generation = self.snapshots[words[0]], world.next_generation()
                decision = world.decided(share.restore(snapshot, 0, generation=generation))
            case "seek":
                retained, generation = int(options["retained"]), world.next_generation()
                target = world.end if words[0] == "end" else int(words[0])
                decision = world.decided(share.seek(target, retained, generation=generation))
            case "snapshot":
                self.snapshots[words[0]] = Cursor(share.cursor.floor, share.cursor.chunks)
                return "taken", ""
            case "advance":
                decision = world.decided(share.advance(int(words[0])))
            case "restart":
                world.restart()
                return self.state(), ""
            case _:
                raise AssertionError(f"no such verb: {verb}")
        letters = [f"dead-letter {self.names[x.offset]}" for x in world.letters[before:]]
        reply = self.refused(decision) or ", ".join([*letters, self.state()])
        return reply, self.records(decision)

    def publish(self, names: list[str], key: str) -> str:
        number = self.keys.setdefault(key, len(self.keys) + 1) if key else 0
        self.names += names
        return " ".join(map(str, self.world.publish(*[number] * len(names))))

    def pull(self, now: float, options: dict[str, str]) -> str:
        window = Credit(
            int(options.get("messages", 0)),
            int(options.get("bytes", 0)),
            client=options.get("client"),
        )
        consumer = window
        if "by" in options:
            consumer = self.consumers.setdefault(options["by"], window)
        ids = self.world.lease(
            consumer, int(options.get("max", 100)), deadline_s=now + self.deadline_s
        )
        out = []
        for generation, offset in ids:
            name = self.names[offset]
            number = 1 + sum(known.startswith(f"{name}#") for known in self.deliveries)
            self.deliveries[f"{name}#{number}"] = (generation, offset)
            out.append(f"{name}#{number}")
        return " ".join(out) or "nothing"

    def ids(self, words: list[str]) -> list[Id]:
        return [self.deliveries[word] for word in words if word != "partial"]

    def offsets(self, words: list[str]) -> BitMap64:
        return BitMap64(self.names.index(word) for word in words)

    def refused(self, decision: Decision) -> str:
        known = {id_: name for name, id_ in self.deliveries.items()}
        kinds = (("invalid", decision.invalid), ("early", decision.early))
        return ", ".join(
            f"{kind} {' '.join(known[id_] for id_ in sorted(ids))}" for kind, ids in kinds if ids
        )

    def state(self) -> str:
        stats = self.world.share.stats(self.world.end)
        counts = {
            "outstanding": stats.outstanding,
            "delayed": stats.delayed,
            "forwarding": stats.forwarding,
        }
        counts["waiting"] = stats.backlog - sum(counts.values())
        return ", ".join(f"{n} {name}" for name, n in counts.items() if n) or "all acked"

    def records(self, decision: Decision) -> str:
        return ", ".join(_short(record) for record in decision.records)


def _nack(words: list[str], options: dict[str, str]) -> Nack:
    return Nack(
        delay_s=float(options["delay"]) if "delay" in options else None,
        is_terminal="terminal" in words,
        is_counted="uncounted" not in words,
    )


def _short(record: ShareRecord) -> str:
    match record:
        case CursorHead():
            return f"head {record.floor}"
        case CursorChunk():
            return f"chunk {record.chunk} {_set(record.bits)}"
        case AttemptsChunk():
            counts = None if record.counts is None else dict(record.counts)
            return f"attempts {record.chunk} {'over' if counts is None else counts}"
    return f"lease {record.generation}.{record.part} {_set(record.offsets)}"


def _set(bits: BitMap64 | None) -> str:
    return "over" if bits is None else f"{{{' '.join(map(str, bits))}}}"


@pytest.mark.parametrize("path", TRACES, ids=lambda path: path.stem)
def test_trace(path):
    expected, actual = [], []
    trace: Trace | None = None
    for line in path.read_text(encoding="utf-8").splitlines():
        text = re.sub(r"(^|\s)# .*", "", line).strip()
        if text.startswith("share"):
            trace = Trace(text)
        elif text:
            row = ROW.fullmatch(text)
            assert row is not None, f"{path.name}: not a row: {line}"
            assert trace is not None, f"{path.name}: `share` comes first"
            reply, records = trace.run(float(row["now"]), row["verb"], row["rest"])
            said = text[: row.start("reply")].rstrip()
            expected.append(" ".join(f"{said} {row['reply']}".split()))
            shown = f"{reply} | {records}" if "|" in row["reply"] else reply
            actual.append(" ".join(f"{said} {shown}".split()))
    assert actual == expected


def test_there_are_traces():
    assert len(TRACES) >= 6
