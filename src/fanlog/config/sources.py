"""The settings from where they stand: flags first, then variables, then the file."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from fanlog.config import checks
from fanlog.config.settings import Config
from fanlog.errors import ConfigError
from fanlog.telemetry_settings import from_otel

ENV_PREFIX = "FANLOG_"
#: Names the TOML file; a flag `config` does the same and comes first.
ENV_FILE = "FANLOG_CONFIG"
#: Variables of other commands, and of clients, which may stand in the same environment.
OTHER_VARIABLES = frozenset(
    {
        "FANLOG_MASTER",
        "FANLOG_IMPORT_ROOTS",
        "FANLOG_S3_BUCKETS",
        "FANLOG_CA",
        "FANLOG_CERT",
        "FANLOG_KEY",
        "FANLOG_TOKEN",
        "FANLOG_TOKEN_FILE",
        "FANLOG_CREDENTIALS",
    }
)


def resolve(flags: Mapping[str, object], environ: Mapping[str, str]) -> Config:
    """Resolve the settings from flags, the environment and the file they may name.

    Args:
        flags: Values by setting name, `config` for the file; None means not given.
        environ: The process environment.

    Raises:
        ConfigError: A setting is unknown, of the wrong type, out of range or contradictory.
    """
    given = {name: value for name, value in flags.items() if value is not None}
    file_name = given.pop("config", None) or environ.get(ENV_FILE) or None
    sources = [_from_flags(given), _from_environ(environ)]
    if file_name is not None:
        sources.append(_from_file(Path(str(file_name))))
    sources.append(_check_all(from_otel(environ), lambda name: f"{name}, by a variable OTEL_*,"))

    resolved: dict[str, Any] = {}
    for values in sources:
        for choice in checks.CHOICES:
            if not resolved.keys().isdisjoint(choice):
                values = {name: value for name, value in values.items() if name not in choice}
        resolved = values | resolved
    return Config(**resolved)


def _from_flags(given: Mapping[str, object]) -> dict[str, object]:
    return _check_all(given, lambda name: f"--{name.replace('_', '-')}")


def _from_environ(environ: Mapping[str, str]) -> dict[str, object]:
    # An empty variable is an unset one, as compose files and service units write it.
    texts = {
        name.removeprefix(ENV_PREFIX): text
        for name, text in environ.items()
        if name.startswith(ENV_PREFIX) and name not in (ENV_FILE, *OTHER_VARIABLES) and text
    }
    known = {name.upper(): name for name in checks.CHECKS}
    values: dict[str, object] = {}
    for upper, text in texts.items():
        if upper not in known:
            raise ConfigError(_unknown(f"variable {ENV_PREFIX}{upper}", upper, known))
        values[known[upper]] = _read_text(known[upper], text)
    return _check_all(values, lambda name: f"{ENV_PREFIX}{name.upper()}")


def _from_file(path: Path) -> dict[str, object]:
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"cannot read the file {path}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path} is not a TOML file: {error}") from error
    if "seal_key" in table:
        raise ConfigError(
            f"'seal_key' in {path}: a seal key stands in no settings file; name the file that has"
            " it (seal_key_file)"
        )
    values = _check_all(table, lambda name: f"{name!r} in {path}")
    # Paths in the file are relative to it, so that the server may start from anywhere.
    lake = values.get("lake")
    if isinstance(lake, str) and "://" not in lake:
        values["lake"] = str(path.parent / lake)
    return {
        name: path.parent / value if isinstance(value, Path) else value
        for name, value in values.items()
    }


def _check_all(values: Mapping[str, object], say: Callable[[str], str]) -> dict[str, object]:
    checked: dict[str, object] = {}
    for name, value in values.items():
        if name not in checks.CHECKS:
            raise ConfigError(_unknown(f"setting {say(name)}", name, checks.CHECKS))
        try:
            checked[name] = checks.CHECKS[name](value)
        except ValueError as error:
            # A secret is in no text, be it a wrong one.
            shown = "" if name in ("seal_key", "otlp_headers") else f", not {value!r}"
            raise ConfigError(f"{say(name)} {error}{shown}") from error
    if checked.get("memory") and "data_dir" in checked:
        raise ConfigError(
            f"{say('memory')} and {say('data_dir')} exclude each other; choose one of them"
        )
    if "seal_key" in checked and "seal_key_file" in checked:
        raise ConfigError(
            f"{say('seal_key')} and {say('seal_key_file')} exclude each other; choose one of them"
        )
    return checked


def _unknown(what: str, name: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, list(known), n=1)
    hint = f"; did you mean {close[0]}?" if close else f"; known are {', '.join(sorted(known))}"
    return f"unknown {what}{hint}"


def _read_text(name: str, text: str) -> object:
    """Read a variable's text as a value of its setting; a text that is none stays text."""
    if checks.CHECKS[name] is checks.flag:
        return checks.FLAG_WORDS.get(text.lower(), text)
    if checks.CHECKS[name] in checks.NUMBERS:
        try:
            return float(text) if "." in text else int(text)
        except ValueError:
            return text
    return text
