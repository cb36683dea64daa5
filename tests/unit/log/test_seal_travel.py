"""How far messages travel: hop counts and shares of copies, as a seal keeps them."""

from __future__ import annotations

from fanlog import limits
from fanlog.log.seal import SPREAD_MAX, UNSEALED, Seal


def copies(branches: int, depth: int) -> int:
    """Copies that a full tree of forwards makes of one message."""
    made, level, seal = 0, 1, UNSEALED
    for _ in range(depth):
        onward = seal.next_hop(branches)
        if onward is None:
            break
        level *= branches
        made += level
        seal = onward
    return made


def test_trees_end():
    for branches in (2, 3, 10, 100):
        assert copies(branches, 1_000) <= 2 * limits.FORWARD_COPIES_MAX


def test_a_chain_ends_at_the_hop_limit():
    assert copies(1, 1_000) == limits.FORWARD_HOPS_MAX


def test_the_first_branch_is_free_and_ways_that_do_not_branch_are():
    seal = UNSEALED.next_hop(5_000)
    assert seal == Seal(hops=1, spread=13)
    assert seal.next_hop(1) == Seal(hops=2, spread=13)
    assert seal.next_hop(2) is None
    assert UNSEALED.next_hop(10**6) == Seal(hops=1, spread=SPREAD_MAX)


def test_dead_letters_count_and_go_further():
    seal = Seal(hops=limits.FORWARD_HOPS_MAX, spread=3, is_copy=True)
    assert seal.next_hop(1) is None
    assert seal.letters() == Seal(
        is_letter=True, is_copy=True, hops=limits.FORWARD_HOPS_MAX + 1, spread=3
    )
    assert Seal(hops=limits.LETTER_HOPS_MAX).letters() is None


def test_seals_are_read_as_they_are_written():
    for seal in (UNSEALED, Seal(hops=255, spread=15), Seal(is_letter=True, addressee=7, spread=1)):
        assert Seal.of_flags(seal.flags, seal.addressee) == seal
        assert Seal.parse(str(seal)) == seal
