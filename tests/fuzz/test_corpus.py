"""Everything the fuzzers once found worth keeping, and a short search from there."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fuzz.bounds import Target, TooSlow, check
from fuzz.draw import Draw, chunk
from fuzz.mutate import inputs
from fuzz.seeds import all_seeds
from fuzz.table import CORPUS, TARGETS, corpus_of

#: Of all saved inputs together.
CORPUS_BYTES_MAX = 300 * 1024

#: So many inputs in the short search: less for those that need a broker or a command line each.
EXAMPLES = dict.fromkeys(TARGETS, 120) | {
    "requests": 25,
    "verbs": 40,
    "stream": 25,
    "every_verb": 25,
    "every_route": 25,
    "rest": 40,
    "rest_resources": 40,
    "events": 40,
    "command_line": 15,
    "resources_file": 60,
}


@pytest.mark.parametrize("name", TARGETS)
def test_saved_inputs(name: str) -> None:
    target = TARGETS[name]
    saved = corpus_of(name)
    assert saved, "a target without a corpus"
    # What is made and read once only is nobody's in particular.
    target.run(saved[0].read_bytes())
    for path in saved:
        try:
            check(target, path.read_bytes())
        except BaseException as error:
            error.add_note(f"input: {path.relative_to(CORPUS)}")
            raise


@pytest.mark.parametrize("name", TARGETS)
def test_a_short_search(name: str) -> None:
    target = TARGETS[name]

    @settings(
        max_examples=EXAMPLES[name],
        derandomize=True,
        database=None,
        deadline=None,
        print_blob=True,
        suppress_health_check=list(HealthCheck),
    )
    @given(inputs(target))
    def search(data: bytes) -> None:
        check(target, data, memory=False)

    search()


def test_the_corpus_is_small() -> None:
    sizes = {path: path.stat().st_size for path in CORPUS.rglob("*") if path.is_file()}
    assert sum(sizes.values()) <= CORPUS_BYTES_MAX
    assert {path.parent.name for path in sizes} == set(TARGETS)


def test_every_target_has_seeds() -> None:
    assert set(all_seeds()) == set(TARGETS)
    assert all(all_seeds().values())


# The measures themselves.


def test_an_input_that_takes_too_long_is_noticed() -> None:
    def spin(_: bytes) -> None:
        while True:
            with suppress(Exception):
                sum(range(100))

    with pytest.raises(TooSlow):
        check(Target(name="spin", run=spin, seconds_max=0.05), b"", memory=False)


def test_an_input_that_takes_too_much_memory_is_noticed() -> None:
    def hoard(data: bytes) -> None:
        bytearray(1_000_000 + len(data))

    hoarding = Target(name="hoard", run=hoard, memory_max=900_000)
    with pytest.raises(AssertionError, match="of memory"):
        check(hoarding, b"")
    check(hoarding, b"." * 400)


@given(st.lists(st.binary(max_size=40)))
def test_chunks_are_read_back(parts: list[bytes]) -> None:
    draw = Draw(b"".join(map(chunk, parts)))
    assert [draw.chunk() for _ in parts] == parts
    assert draw.is_empty
    assert (draw.number(4), draw.chunk(), draw.text()) == (0, b"", "")
