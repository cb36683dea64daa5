"""Python's collector of garbage, while hard state is built.

Hard state is hundreds of thousands of objects, none of them garbage. To look for it again and again
more than doubles the time that a load takes, and holds the loop up for as long.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_collector() -> Iterator[None]:
    """Build something that stays: the collector does not look at it, nor afterwards."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
        gc.freeze()
    finally:
        if was_enabled:
            gc.enable()


def let_collect() -> None:
    """Let the collector look at the built objects again, and free those that nothing refers to."""
    gc.unfreeze()
