"""The seal of a batch: the broker's own statement about its messages, which no publisher can make.

Attributes are data: any publisher may send a message that looks like a dead letter. Whether it is
one stands in the batch's header, which only the broker writes. Batches from before there were seals
have none (`None`), and of those the attributes are believed, as they were then.

In a batch, a seal is bits of the header's flags and, if it names an addressee, eight bytes; in the
lake, where rows stand for themselves, a short text.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from fanlog.limits import FORWARD_COPIES_MAX, FORWARD_HOPS_MAX, LETTER_HOPS_MAX

#: Bits of a batch's flags, beside the one for key hashes.
IS_LETTER: Final = 1 << 1
IS_COPY: Final = 1 << 2
IS_ADDRESSED: Final = 1 << 3
BITS: Final = IS_LETTER | IS_COPY | IS_ADDRESSED | 0xF << 4 | 0xFF << 8

_SPREAD_SHIFT: Final = 4
SPREAD_MAX: Final = 0xF
_HOPS_SHIFT: Final = 8
HOPS_MAX: Final = 0xFF


@dataclass(frozen=True, slots=True)
class Seal:
    """The facts that hold for all messages of a batch."""

    #: The broker made these dead letters: their attributes about their originals are true.
    is_letter: bool = False
    #: Redriven copies, or letters of such: the original's id that they name is the right one.
    is_copy: bool = False
    #: Id of the one subscription that they are for; 0 when they are for all.
    addressee: int = 0
    #: How many forwards and dead letters they came through.
    hops: int = 0
    #: Of how many copies each is one, as a power of two: that many were made where ways branched.
    spread: int = 0

    def __post_init__(self) -> None:
        assert self.addressee >= 0
        assert 0 <= self.hops <= HOPS_MAX
        assert 0 <= self.spread <= SPREAD_MAX

    def next_hop(self, branches: int) -> Seal | None:
        """The seal of copies that are forwarded, `branches` ways at once; None to stop here.

        Every copy of a message has its share of the copies there may be: where ways branch, they
        divide it among themselves. So a tree of forwards of any shape ends.
        """
        assert branches >= 1
        spread = self.spread + (branches - 1).bit_length()
        is_branching = branches > 1 and self.hops > 0
        if self.hops >= FORWARD_HOPS_MAX or (is_branching and 1 << spread > FORWARD_COPIES_MAX):
            return None
        return Seal(hops=self.hops + 1, spread=min(spread, SPREAD_MAX))

    def letters(self) -> Seal | None:
        """The seal of the dead letters that these messages become; None to stop here."""
        if self.hops >= LETTER_HOPS_MAX:
            return None
        return Seal(is_letter=True, is_copy=self.is_copy, hops=self.hops + 1, spread=self.spread)

    @property
    def flags(self) -> int:
        return (
            (IS_LETTER if self.is_letter else 0)
            | (IS_COPY if self.is_copy else 0)
            | (IS_ADDRESSED if self.addressee else 0)
            | self.spread << _SPREAD_SHIFT
            | self.hops << _HOPS_SHIFT
        )

    @classmethod
    def of_flags(cls, flags: int, addressee: int) -> Seal:
        if not flags & BITS:
            return UNSEALED
        return cls(
            is_letter=bool(flags & IS_LETTER),
            is_copy=bool(flags & IS_COPY),
            addressee=addressee,
            hops=flags >> _HOPS_SHIFT,
            spread=flags >> _SPREAD_SHIFT & SPREAD_MAX,
        )

    def __str__(self) -> str:
        """As the lake has it: words with blanks between them; empty for nothing to say."""
        words = ["letter"] * self.is_letter + ["copy"] * self.is_copy
        words += [f"to={self.addressee}"] if self.addressee else []
        words += [f"hops={self.hops}"] if self.hops else []
        words += [f"spread={self.spread}"] if self.spread else []
        return " ".join(words)

    @classmethod
    def parse(cls, text: str) -> Seal:
        """Read a seal of the lake.

        Raises:
            ValueError: It is none that this version knows.
        """
        said: dict[str, str] = {}
        for word in text.split():
            name, _, value = word.partition("=")
            said[name] = value
        seal = cls(
            is_letter=said.get("letter") == "",
            is_copy=said.get("copy") == "",
            addressee=_number(said.get("to", "0")),
            hops=min(_number(said.get("hops", "0")), HOPS_MAX),
            spread=min(_number(said.get("spread", "0")), SPREAD_MAX),
        )
        if str(seal) != text:
            raise ValueError(f"the seal {text[:80]!r} is not known")
        return seal


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 20):
        return 0
    number = int(text)
    return number if number < 1 << 64 else 0


#: The seal of a publisher's messages: for every subscription, and no attribute is the broker's.
UNSEALED: Final = Seal()
