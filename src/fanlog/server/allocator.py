"""Keep freed memory at hand.

A broker allocates and frees buffers of a few hundred kilobytes all the time: requests, batches, the
pages of a commit. glibc by default gives such buffers back to the kernel at once and takes fresh,
zeroed pages the next time, which costs more than everything else that is done with a message of
1 KiB (measured: 2.5 against 0.7 microseconds of processor time a message, commit included).
After a flood of requests that were never finished it is given back: hundreds of megabytes would lie
between buffers that are in use.
"""

from __future__ import annotations

import ctypes

# From glibc's malloc.h.
_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3

#: Buffers up to this come from the heap; glibc allows no more than 32 MiB.
HEAP_BUFFER_BYTES = 32 * 1024 * 1024
#: Free memory at the heap's end that is kept for the next buffer.
KEPT_BYTES = 64 * 1024 * 1024


def release_freed_memory() -> bool:
    """Give free memory back to the kernel, wherever it lies; False where that cannot be done."""
    try:
        return bool(ctypes.CDLL(None).malloc_trim(KEPT_BYTES))
    except (AttributeError, OSError):
        return False


def keep_freed_memory() -> bool:
    """Tell the C library's allocator; False where there is none that listens."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return False
    return bool(
        mallopt(_M_MMAP_THRESHOLD, HEAP_BUFFER_BYTES) and mallopt(_M_TRIM_THRESHOLD, KEPT_BYTES)
    )
