"""Files of secrets: made new, for their owner alone."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from fanlog.errors import InvalidArgument


@contextmanager
def new_secret_file(path: Path, option: str) -> Iterator[Callable[[bytes], None]]:
    """A file that was not there, and a function that writes its content; durable when it returns.

    The file is made first, so that no secret is made that cannot be kept, and removed again when
    the block fails.

    Raises:
        InvalidArgument: It is there already, or cannot be written.
    """
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError as error:
        raise InvalidArgument(
            f"{option}: {str(path)!r} is there already and is not overwritten; name another file"
        ) from error
    except OSError as error:
        raise InvalidArgument(f"{option}: {str(path)!r}: {error.strerror}") from error
    try:
        with os.fdopen(descriptor, "wb") as file:

            def write(content: bytes) -> None:
                try:
                    file.write(content)
                    file.flush()
                    os.fsync(file.fileno())
                except OSError as error:
                    raise InvalidArgument(f"{option}: {str(path)!r}: {error.strerror}") from error

            yield write
    except BaseException:
        with suppress(OSError):
            path.unlink()
        raise
