"""The runway: zeros that stand behind the last page of the data file before pages need the place.

A sync that also makes a file longer has to commit the file system's journal: 0.2 ms where one that
overwrites takes 0.1 ms (ext4). LMDB makes its file longer by a page or two in every other small
commit. So the writer's thread writes zeros at the end of the file and syncs them between two
commits, once for hundreds of them.

1. Zeros are written at the end of the file alone, by the thread that commits and never during a
   commit: no page that LMDB wrote can be under them.
2. LMDB does not look behind its last page: a runway that a crash leaves behind, or a part of one,
   means nothing.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path

from fanlog import limits

log = logging.getLogger(__name__)

#: Weight of the last commit in the mean size: about sixteen commits make a habit.
_WEIGHT = 1 / 16
_ZEROS = bytes(limits.RUNWAY_BYTES)


class Runway:
    """Of one open data file. Used by the writer's thread; `left_bytes` may be read anywhere."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
        #: How long the file is, at least: LMDB may have made it longer since.
        self._size_bytes = os.fstat(self._file).st_size
        self._commit_bytes_mean = 0.0
        self._is_off = False

    def left_bytes(self, end_bytes: int) -> int:
        """Bytes of the file behind `end_bytes`, where LMDB's last page ends."""
        return max(0, self._size_bytes - end_bytes)

    def count(self, commit_bytes: int) -> None:
        """A commit appended so many bytes."""
        self._commit_bytes_mean += (commit_bytes - self._commit_bytes_mean) * _WEIGHT

    def extend(self, end_bytes: int) -> None:
        """Write and sync zeros, where few are left and commits are small.

        Large commits pay for their bytes and not for the journal: zeros would only double them.
        """
        if self._is_off or self.left_bytes(end_bytes) >= limits.RUNWAY_BYTES_MIN:
            return
        if self._commit_bytes_mean > limits.RUNWAY_COMMIT_BYTES_MAX:
            return
        self._size_bytes = os.fstat(self._file).st_size
        if self.left_bytes(end_bytes) >= limits.RUNWAY_BYTES_MIN or not self._has_room():
            return
        try:
            written = os.pwrite(self._file, _ZEROS, self._size_bytes)
            os.fdatasync(self._file)
        except OSError as error:
            # Commits do without: the next one says by itself whether the disk is full or broken.
            self._is_off = True
            log.warning("action=runway error=%r; commits take a little longer from here on", error)
        else:
            self._size_bytes += written

    def close(self, end_bytes: int) -> None:
        """Leave a file without a runway behind, as long as its pages are."""
        if self.left_bytes(end_bytes):
            os.ftruncate(self._file, end_bytes)
        os.close(self._file)

    def _has_room(self) -> bool:
        """Whether the disk is so empty that nobody misses the runway."""
        disk = os.fstatvfs(self._file)
        return disk.f_bavail * disk.f_frsize >= limits.RUNWAY_ROOM_BYTES_MIN
