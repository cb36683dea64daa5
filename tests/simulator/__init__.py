"""A whole world in one thread: one seed, one history.

The real core and the real broker run on a loop whose time is virtual (`loop`), over a log whose
commits may be slow, fail or be cut off by a crash (`store`), used by clients behind a network that
delays, drops and repeats (`network`, `clients`). Everything random comes from one seed, so a world
that breaks a promise can be lived again: `python -m simulator --seed N`.

What may break: any commit may take long, fail as a whole, or be lost with a crash before it was
answered; it may also have happened although nobody was told. It is never torn: LMDB promises that.
The disk may be full for a while. A stored batch may fail its checksum when read back. Requests and
answers may be late, lost or repeated, and streams may be half dead. The process may stop at any
await and start again. The machine's clock may step.

What must survive: the promises P1 to P8, as `checkers` states them.
"""
