"""Hypothesis as a fuzzer: bytes from nothing, and saved inputs with a few things changed."""

from __future__ import annotations

from hypothesis import strategies as st

from fuzz.bounds import Target
from fuzz.table import corpus_of

#: Bytes that mean something to one format or another.
_TELLING = st.sampled_from(
    [
        b"\0", b"\1", b"\x7f", b"\x80", b"\xff", b"\xff\xff\xff\xff", b"\x0a", b"\x12", b"\x0b",
        b"\n", b"=", b"/", b".", b"%", b"'", b'"', b"[", b"{", b"&a", b"*a", b"9" * 40, b"-", b"e",
        "\u00e9".encode(), "\U0001f389".encode(), b"\xed\xa0\x80", b"goog", b"projects/",
    ]
)  # fmt: skip


def inputs(target: Target) -> st.SearchStrategy[bytes]:
    """Inputs for a target, at most as long as it takes."""
    saved = [path.read_bytes() for path in corpus_of(target.name)]
    noise = st.binary(max_size=min(200, target.size_max))
    if not saved:
        return noise
    return noise | changed(st.sampled_from(saved)).map(lambda made: made[: target.size_max])


@st.composite
def changed(draw: st.DrawFn, saved: st.SearchStrategy[bytes]) -> bytes:
    made = bytearray(draw(saved))
    for _ in range(draw(st.integers(1, 4))):
        place = draw(st.integers(0, len(made)))
        match draw(st.integers(0, 4)):
            case 0 if place < len(made):
                made[place] ^= 1 << draw(st.integers(0, 7))
            case 1:
                made[place:place] = draw(_TELLING | st.binary(max_size=8))
            case 2:
                del made[place : place + draw(st.integers(1, 16))]
            case 3:
                other = draw(saved)
                begin = draw(st.integers(0, len(other)))
                made[place:] = other[begin:]
            case _:
                told = draw(_TELLING)
                made[place : place + len(told)] = told
    return bytes(made)
