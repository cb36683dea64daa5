"""Files of seal keys: one key a line, of which the first seals."""

from __future__ import annotations

import logging
import os
import stat
from pathlib import Path

from fanlog.core.seal_keys import KEY_BYTES, NONCE_BYTES, SealKey, SealKeys, parse_keys
from fanlog.errors import ConfigError

log = logging.getLogger("fanlog.broker")

#: Others may do nothing with the file of a key.
_OTHERS = 0o077


def read_seal_keys(path: Path) -> list[SealKey]:
    """The keys in a file. One that others on this machine can read is warned of.

    Raises:
        ConfigError: It cannot be read, or has something else in it.
    """
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
        text = path.read_text(encoding="ascii", errors="replace")
    except OSError as error:
        raise ConfigError(f"the seal key in {path} cannot be read: {error.strerror}") from error
    try:
        keys = parse_keys(text)
    except ValueError as error:
        raise ConfigError(f"{path}: {error}") from error
    if mode & _OTHERS:
        log.warning(
            "action=seal_key_shared path=%s mode=%o; others on this machine may read it: chmod "
            "600 %s",
            *(path, mode, path),
        )
    return keys


def seal_keys(keys: list[SealKey]) -> SealKeys:
    """Keys that seal with nonces of the operating system."""
    return SealKeys(keys, lambda: os.urandom(NONCE_BYTES))


def new_seal_key() -> SealKey:
    return SealKey(os.urandom(KEY_BYTES))
