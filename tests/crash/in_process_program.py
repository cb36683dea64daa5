"""A program with a broker in it, for a test that kills it: says what it did, one line a thing.

`python in_process_program.py FOLDER LIFE` publishes and consumes until it is killed; with `drain`
as its life it publishes nothing, consumes what is left, and ends.
"""

from __future__ import annotations

import itertools
import logging
import os
import sys
import zlib

import fanlog

KEYS = ("anna", "ben", "cleo")


def say(*words: object) -> None:
    """One write, so that a kill leaves no half a line of another thread's."""
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


def main(folder: str, life: str) -> None:
    broker = fanlog.Broker(folder).start()
    failed: set[str] = set()

    def least(message: fanlog.Message) -> None:
        say("least", message.payload["n"], message.key)
        if zlib.crc32(message.id.encode()) % 10 == 0 and message.id not in failed:
            failed.add(message.id)
            raise ValueError("once more")

    def once(message: fanlog.Message) -> None:
        say("once", message.payload["n"], message.key)
        message.ack().result()
        say("confirmed", message.payload["n"])

    broker.subscribe("orders.#", least, name="least", retry=(0, 0), max_outstanding=50)
    broker.subscribe(
        "orders.#", once, name="once", delivery="exactly-once", retry=(0, 0), max_outstanding=50
    )
    if life == "drain":
        say("drained", broker.join(100))
        broker.stop()
        return
    for number in itertools.count():
        batch = [
            fanlog.NewMessage({"n": f"{life}-{number}-{index}"}, key=KEYS[index % 3])
            for index in range(6)
        ]
        broker.publish_many(f"orders.{life}", batch)
        for new in batch:
            say("published", new.payload["n"], new.key)  # type: ignore[index]


if __name__ == "__main__":
    logging.disable(logging.WARNING)
    main(sys.argv[1], sys.argv[2])
